//! Detects the kind of a picture from its bytes alone.
//!
//! The first bytes identify the kind. The rest must have its structure from the first block to the
//! last, and end there. So a truncated picture is refused, and so is one with trailing data that
//! other programs would treat as an archive or a page. Nothing is decoded: the browser does that,
//! in its sandbox.
//!
//! Deliberately absent: SVG, which can contain scripts.

/// An accepted kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Png,
    Jpeg,
    Gif,
    WebP,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Png, Kind::Jpeg, Kind::Gif, Kind::WebP];

    /// Returns the file extension.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Kind::Png => "png",
            Kind::Jpeg => "jpg",
            Kind::Gif => "gif",
            Kind::WebP => "webp",
        }
    }

    /// Returns the content type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::WebP => "image/webp",
        }
    }

    /// Returns the kind of a complete picture; `None` if it is none.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| match kind {
            Kind::Png => png(bytes).is_some(),
            Kind::Jpeg => jpeg(bytes).is_some(),
            Kind::Gif => gif(bytes).is_some(),
            Kind::WebP => webp(bytes).is_some(),
        })
    }
}

/// Takes `count` bytes off the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    take(rest, 1).map(|one| one[0])
}

fn end(rest: &[u8]) -> Option<()> {
    rest.is_empty().then_some(())
}

/// Checks a PNG: chunks of length, name, data, checksum; IHDR first, IEND last.
fn png(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let mut first = true;
    loop {
        let length = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let name = take(&mut rest, 4)?;
        take(&mut rest, usize::try_from(length).ok()?)?;
        take(&mut rest, 4)?;
        if first && (name != b"IHDR" || length != 13) {
            return None;
        }
        first = false;
        if name == b"IEND" {
            return end(rest);
        }
    }
}

/// Checks a JPEG: segments of marker and length; after a scan's segment its data, in which 0xFF is
/// followed by 0 or a restart; the end marker last.
fn jpeg(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    let mut scanned = false;
    loop {
        if byte(&mut rest)? != 0xff {
            return None;
        }
        let mut marker = byte(&mut rest)?;
        // Markers may be padded.
        while marker == 0xff {
            marker = byte(&mut rest)?;
        }
        match marker {
            0xd9 => return scanned.then(|| end(rest))?,
            0x00 | 0x01 | 0xd0..=0xd8 => return None,
            _ => {}
        }
        let length = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
        take(&mut rest, usize::from(length).checked_sub(2)?)?;
        if marker == 0xda {
            scanned = true;
            skip_scan(&mut rest)?;
        }
    }
}

/// Skips to the next marker that is not part of a scan's data.
fn skip_scan(rest: &mut &[u8]) -> Option<()> {
    let ends = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xd0..=0xd7);
    let at = rest.windows(2).position(ends)?;
    take(rest, at).map(drop)
}

/// Checks a GIF: screen, colours, then blocks: pictures, extensions, the trailer last.
fn gif(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.strip_prefix(b"GIF89a").or_else(|| bytes.strip_prefix(b"GIF87a"))?;
    let screen = take(&mut rest, 7)?;
    take(&mut rest, colours(screen[4]))?;
    let mut pictures = 0_usize;
    loop {
        match byte(&mut rest)? {
            0x21 => {
                byte(&mut rest)?;
                sub_blocks(&mut rest)?;
            }
            0x2c => {
                let picture = take(&mut rest, 9)?;
                take(&mut rest, colours(picture[8]))?;
                byte(&mut rest)?;
                sub_blocks(&mut rest)?;
                pictures += 1;
            }
            0x3b => return (pictures > 0).then(|| end(rest))?,
            _ => return None,
        }
    }
}

/// Returns the bytes of a colour table, from the flags before it.
fn colours(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

fn sub_blocks(rest: &mut &[u8]) -> Option<()> {
    loop {
        let length = byte(rest)?;
        if length == 0 {
            return Some(());
        }
        take(rest, usize::from(length))?;
    }
}

/// Checks a WebP: one RIFF chunk that spans everything, of chunks with an even length.
fn webp(bytes: &[u8]) -> Option<()> {
    let mut rest = bytes.strip_prefix(b"RIFF")?;
    let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    if usize::try_from(length).ok()? != rest.len() {
        return None;
    }
    rest = rest.strip_prefix(b"WEBP")?;
    let mut pictures = 0_usize;
    while !rest.is_empty() {
        let name = take(&mut rest, 4)?;
        let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let length = usize::try_from(length).ok()?;
        take(&mut rest, length.checked_add(length % 2)?)?;
        pictures += usize::from(matches!(name, b"VP8 " | b"VP8L" | b"ANMF"));
    }
    (pictures > 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0CRC1\
        \0\0\0\x02IDATxyCRC2\0\0\0\0IENDCRC3";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04ab\xff\xda\0\x04ab\x01\x02\xff\0\x03\xff\xd0\x04\xff\xd9";
    const GIF: &[u8] =
        b"GIF89a\x01\0\x01\0\x80\0\0abcdef!\xfe\x02hi\0,\0\0\0\0\x01\0\x01\0\0\x02\x02xy\0;";
    const WEBP: &[u8] = b"RIFF\x10\0\0\0WEBPVP8L\x03\0\0\0abc\0";

    #[test]
    fn whole_pictures_are_known_and_nothing_else() {
        let all = [(PNG, Kind::Png), (JPEG, Kind::Jpeg), (GIF, Kind::Gif), (WEBP, Kind::WebP)];
        for (bytes, kind) in all {
            assert_eq!(Kind::of(bytes), Some(kind));
            for cut in 0..bytes.len() {
                assert_eq!(Kind::of(&bytes[..cut]), None, "{kind:?} cut at {cut}");
            }
            let behind = [bytes, b"<script>".as_slice()].concat();
            assert_eq!(Kind::of(&behind), None, "{kind:?} with something behind it");
        }
        for other in [
            b"<svg xmlns='http://www.w3.org/2000/svg'/>".as_slice(),
            b"GIF89a/*<script>*/=1",
            b"%PDF-1.7",
            b"PK\x03\x04",
            b"<!doctype html>",
            b"",
        ] {
            assert_eq!(Kind::of(other), None);
        }
    }
}
