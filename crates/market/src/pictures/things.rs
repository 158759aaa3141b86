//! Goods on a table.

use super::Sheet;

/// Draws a table, and on it a bowl, a box, a bottle or a bag.
pub(super) fn still_life(sheet: &mut Sheet) {
    let colours = sheet.colours;
    sheet.rect([0, 0, 320, 320], 0, colours.sky);
    let light = sheet.seed.between(110, 210);
    sheet.oval([light, 130], [110, 110], colours.pale);
    sheet.rect([0, 236, 320, 84], 0, colours.dark);
    sheet.oval([160, 246], [112, 16], colours.body);
    match sheet.seed.between(0, 3) {
        0 => bowl(sheet),
        1 => parcel(sheet),
        2 => bottle(sheet),
        _ => bag(sheet),
    }
}

fn bowl(sheet: &mut Sheet) {
    let colours = sheet.colours;
    for _ in 0..sheet.seed.between(3, 6) {
        let (x, y) = (sheet.seed.between(104, 216), sheet.seed.between(130, 158));
        let size = sheet.seed.between(18, 32);
        let colour = sheet.seed.pick(&[colours.accent, colours.body, colours.pale]);
        sheet.oval([x, y], [size, size], colour);
    }
    sheet.path("M72 160 H248 Q240 240 160 242 Q80 240 72 160Z", colours.accent);
    sheet.rect([72, 156, 176, 14], 7, colours.sky);
}

fn parcel(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let (width, height) = (sheet.seed.between(110, 170), sheet.seed.between(90, 140));
    let (left, top) = (160 - width / 2, 242 - height);
    sheet.rect([left, top, width, height], 6, colours.body);
    let ribbon = sheet.seed.between(left + 24, left + width - 40);
    sheet.rect([ribbon, top, 18, height], 0, colours.accent);
    sheet.rect([left, top + height / 3, width, 16], 0, colours.accent);
    let knot =
        format!("M{0} {1} q-34 -44 -44 -8 q6 14 44 8 q34 -44 44 -8 q-6 14 -44 8Z", ribbon + 9, top);
    sheet.path(&knot, colours.pale);
}

fn bottle(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let width = sheet.seed.between(56, 84);
    let left = 160 - width / 2;
    let neck = sheet.seed.between(60, 92);
    sheet.rect([148, neck - 26, 24, 30], 4, colours.accent);
    sheet.rect([146, neck, 28, 60], 4, colours.body);
    sheet.path(
        &format!(
            "M{left} 240 V{} Q{left} {} 160 {} Q{right} {} {right} {} V240Z",
            neck + 84,
            neck + 44,
            neck + 30,
            neck + 44,
            neck + 84,
            right = left + width
        ),
        colours.body,
    );
    let label = sheet.seed.between(160, 176);
    sheet.rect([left, label, width, 40], 0, colours.sky);
    sheet.oval([160, label + 20], [12, 12], colours.accent);
}

fn bag(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let height = sheet.seed.between(110, 150);
    let top = 242 - height;
    sheet.line(
        &format!("M128 {top} Q132 {0} 160 {0} Q188 {0} 192 {top}", top - 46),
        9,
        colours.accent,
    );
    sheet.path(&format!("M96 {top} H224 L238 242 H82Z"), colours.body);
    let mark = sheet.seed.between(18, 30);
    sheet.oval([160, top + height / 2], [mark, mark], colours.accent);
    sheet.oval([160, top + height / 2], [mark / 2, mark / 2], colours.pale);
}
