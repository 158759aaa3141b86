//! Faces.

use super::{
    Sheet,
    palette::{HAIR, SKIN},
};

/// Draws shoulders, a head, hair, eyes and a mouth.
pub(super) fn face(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let (skin, hair) = (sheet.seed.pick(&SKIN), sheet.seed.pick(&HAIR));
    sheet.rect([0, 0, 160, 160], 0, colours.pale);
    let (x, y) = (sheet.seed.between(20, 140), sheet.seed.between(10, 60));
    sheet.oval([x, y], [54, 54], colours.sky);
    let style = sheet.seed.between(0, 3);
    if style == 1 {
        // Long hair falls behind the shoulders.
        sheet.rect([40, 44, 80, 90], 36, hair);
    }
    sheet.path("M20 160 Q24 116 80 114 Q136 116 140 160Z", colours.body);
    sheet.rect([68, 96, 24, 26], 10, skin);
    let wide = sheet.seed.between(31, 36);
    sheet.oval([80, 72], [wide, 40], skin);
    top(sheet, style, wide, hair);
    let eyes = sheet.seed.between(12, 16);
    for x in [80 - eyes, 80 + eyes] {
        sheet.oval([x, 74], [4, 5], colours.dark);
    }
    if sheet.seed.between(0, 3) == 0 {
        let glasses = format!(
            "M{} 74 a10 10 0 1 0 20 0 a10 10 0 1 0 -20 0 M{} 74 a10 10 0 1 0 20 0 \
             a10 10 0 1 0 -20 0 M{} 74 H{}",
            70 - eyes,
            70 + eyes,
            90 - eyes,
            70 + eyes
        );
        sheet.line(&glasses, 2, colours.dark);
    }
    let smile = sheet.seed.between(94, 102);
    sheet.line(&format!("M68 90 Q80 {smile} 92 90"), 3, colours.dark);
    if sheet.seed.between(0, 1) == 0 {
        sheet.path("M64 118 L80 138 L96 118Z", colours.accent);
    }
}

/// Draws the top of the head: short hair, long hair, a bun, or a cap.
fn top(sheet: &mut Sheet, style: i64, wide: i64, hair: &str) {
    let (left, right) = (80 - wide - 2, 80 + wide + 2);
    match style {
        3 => {
            let accent = sheet.colours.accent;
            sheet.path(&format!("M{left} 58 Q80 4 {right} 58Z"), accent);
            sheet.rect([left, 54, right - left + 16, 9], 4, accent);
        }
        2 => {
            sheet.oval([80, 26], [15, 14], hair);
            sheet.path(
                &format!("M{left} 68 Q{left} 26 80 28 Q{right} 26 {right} 68 Q80 38 {left} 68Z"),
                hair,
            );
        }
        _ => {
            let parting = sheet.seed.between(56, 104);
            sheet.path(
                &format!(
                    "M{left} 72 Q{left} 24 80 26 Q{right} 24 {right} 72 Q{parting} 40 {left} 72Z"
                ),
                hair,
            );
        }
    }
}
