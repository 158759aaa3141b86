//! Colour palettes.

/// The colours of one picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    /// Background.
    pub(super) sky: &'static str,
    /// Distant or lit parts.
    pub(super) pale: &'static str,
    /// The largest object.
    pub(super) body: &'static str,
    /// Eye-catching details.
    pub(super) accent: &'static str,
    /// Lines and shadows.
    pub(super) dark: &'static str,
}

const fn palette([sky, pale, body, accent, dark]: [&'static str; 5]) -> Palette {
    Palette { sky, pale, body, accent, dark }
}

/// All palettes.
pub(super) const ALL: [Palette; 8] = [
    palette(["#f6efe3", "#f2d7b6", "#d9895b", "#2f6f73", "#3a2e2a"]),
    palette(["#e4f0f3", "#b9dbe0", "#4f8fa3", "#e9a94b", "#22404d"]),
    palette(["#f3eef6", "#d9c9e3", "#8b6bab", "#e8b04a", "#3a2a4d"]),
    palette(["#eef4e6", "#cfe0b4", "#7a9e5f", "#d9624a", "#2f4029"]),
    palette(["#fbeeea", "#f5c9bd", "#d9705f", "#355c7d", "#43282a"]),
    palette(["#e9eef7", "#c3d0ea", "#5b76b3", "#f08a5d", "#26304d"]),
    palette(["#fdf4df", "#f8dc93", "#e2a93b", "#7a4b8c", "#4a3516"]),
    palette(["#e6f4ef", "#b6e0d0", "#3f9b80", "#f2c14e", "#1e4439"]),
];

/// Skin colours, from light to dark.
pub(super) const SKIN: [&str; 5] = ["#f6d7bd", "#e9bd97", "#cf9a6c", "#a8744b", "#7a5135"];
/// Hair colours.
pub(super) const HAIR: [&str; 6] =
    ["#2b2320", "#4a3226", "#7a4a2c", "#b0763d", "#8d8d8d", "#5b2f2f"];
