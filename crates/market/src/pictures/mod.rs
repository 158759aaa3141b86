//! Pictures that the service draws: simple scenes, always the same for the same name.
//!
//! The demo data needs pictures and has no photographs. A picture is an SVG of flat shapes in the
//! colours of one palette, computed from kind and id only, so any process draws the same one and
//! browsers can cache it. It contains no text and nothing external.

pub(crate) mod http;
mod palette;
mod people;
mod places;
mod signs;
mod things;

use std::fmt::Write as _;

use self::palette::Palette;
use crate::{http::Id, seed::Seed};

/// Subject of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A shop front.
    Shop,
    /// A face.
    User,
    /// Goods.
    Goods,
    /// A landscape.
    Note,
    /// Sign of a shop type.
    Type,
}

impl Kind {
    /// Parses the name of a kind.
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "shop" => Kind::Shop,
            "user" => Kind::User,
            "goods" => Kind::Goods,
            "note" => Kind::Note,
            "type" => Kind::Type,
            _ => return None,
        })
    }

    /// Returns width and height.
    fn size(self) -> (u32, u32) {
        match self {
            Kind::Shop | Kind::Note => (480, 320),
            Kind::Goods => (320, 320),
            Kind::User | Kind::Type => (160, 160),
        }
    }
}

/// Parses `/pictures/KIND/FILE`; `None` if there is no such picture.
fn named(kind: &str, file: &str) -> Option<(Kind, u64)> {
    let id = file.strip_suffix(".svg").and_then(Id::parse)?;
    Some((Kind::parse(kind)?, id.0))
}

/// Returns `true` if there is a picture at this path.
pub(crate) fn is_drawn(path: &str) -> bool {
    let name = path.strip_prefix("/pictures/").and_then(|name| name.split_once('/'));
    name.is_some_and(|(kind, file)| named(kind, file).is_some())
}

/// Draws a picture.
fn draw(kind: Kind, id: u64) -> String {
    let mut sheet = Sheet::new(kind, id);
    match kind {
        Kind::Shop => places::shop(&mut sheet),
        Kind::Note => places::landscape(&mut sheet),
        Kind::User => people::face(&mut sheet),
        Kind::Goods => things::still_life(&mut sheet),
        Kind::Type => signs::sign(&mut sheet, id),
    }
    sheet.finish()
}

/// A picture under construction: shapes on top of each other, in whole numbers.
struct Sheet {
    svg: String,
    seed: Seed,
    colours: Palette,
}

impl Sheet {
    fn new(kind: Kind, id: u64) -> Self {
        let mut seed = Seed::new(id.wrapping_mul(8).wrapping_add(kind as u64 + 1));
        let (width, height) = kind.size();
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\">"
        );
        Sheet { svg, colours: seed.pick(&palette::ALL), seed }
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }

    fn shape(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.svg.write_fmt(shape);
    }

    /// Draws a rectangle: left, top, width, height.
    fn rect(&mut self, area: [i64; 4], round: i64, colour: &str) {
        let [x, y, width, height] = area;
        self.shape(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\" \
             fill=\"{colour}\"/>"
        ));
    }

    /// Draws an ellipse: centre, and half its width and height.
    fn oval(&mut self, middle: [i64; 2], half: [i64; 2], colour: &str) {
        let ([x, y], [rx, ry]) = (middle, half);
        self.shape(format_args!(
            "<ellipse cx=\"{x}\" cy=\"{y}\" rx=\"{rx}\" ry=\"{ry}\" fill=\"{colour}\"/>"
        ));
    }

    /// Draws a filled outline.
    fn path(&mut self, outline: &str, colour: &str) {
        self.shape(format_args!("<path d=\"{outline}\" fill=\"{colour}\"/>"));
    }

    /// Draws a line.
    fn line(&mut self, outline: &str, width: i64, colour: &str) {
        self.shape(format_args!(
            "<path d=\"{outline}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linecap=\"round\" stroke-linejoin=\"round\"/>"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_the_same_each_time_and_differ_by_name() {
        let kinds = [Kind::Shop, Kind::User, Kind::Goods, Kind::Note, Kind::Type];
        for kind in kinds {
            let mut seen = std::collections::HashSet::new();
            for id in (0..20).chain([u64::MAX]) {
                let svg = draw(kind, id);
                assert_eq!(svg, draw(kind, id));
                assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
                assert!(!svg.contains("<script") && !svg.contains("href") && svg.len() < 8_000);
                seen.insert(svg);
            }
            assert!(seen.len() > 15, "{kind:?}: {} differ", seen.len());
        }
    }
}
