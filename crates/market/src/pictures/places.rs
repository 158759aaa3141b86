//! Shop fronts and landscapes.

use super::Sheet;

/// Draws a house with an awning, a door, windows, and a hill or the sun behind it.
pub(super) fn shop(sheet: &mut Sheet) {
    let colours = sheet.colours;
    sheet.rect([0, 0, 480, 320], 0, colours.sky);
    let (sun, height) = (sheet.seed.between(60, 420), sheet.seed.between(50, 110));
    sheet.oval([sun, height], [34, 34], colours.pale);
    let hill = sheet.seed.between(120, 360);
    sheet.path(&format!("M0 250 Q{hill} 110 480 240 V320 H0Z"), colours.pale);
    sheet.rect([0, 276, 480, 44], 0, colours.dark);

    let width = sheet.seed.between(220, 320);
    let left = (480 - width) / 2;
    let top = sheet.seed.between(70, 110);
    sheet.rect([left, top, width, 276 - top], 6, colours.body);
    let roof = sheet.seed.between(14, 40);
    sheet.path(
        &format!("M{} {top} L{} {} L{} {top}Z", left - 14, 240, top - roof, left + width + 14),
        colours.dark,
    );
    windows(sheet, left, top, width);
    awning(sheet, left, top + 62, width);
    front(sheet, left, width);
}

fn windows(sheet: &mut Sheet, left: i64, top: i64, width: i64) {
    let colours = sheet.colours;
    let count = sheet.seed.between(3, 5);
    let step = width / count;
    for nth in 0..count {
        let light = if sheet.seed.between(0, 2) == 0 { colours.accent } else { colours.sky };
        sheet.rect([left + nth * step + step / 2 - 14, top + 16, 28, 32], 3, light);
    }
}

fn awning(sheet: &mut Sheet, left: i64, top: i64, width: i64) {
    let colours = sheet.colours;
    let stripes = sheet.seed.between(6, 10);
    for nth in 0..stripes {
        let (from, to) = (left + nth * width / stripes, left + (nth + 1) * width / stripes);
        let colour = if nth % 2 == 0 { colours.accent } else { colours.sky };
        let middle = (from + to) / 2;
        let outline = format!(
            "M{from} {top} H{to} V{} Q{middle} {} {from} {}Z",
            top + 26,
            top + 42,
            top + 26
        );
        sheet.path(&outline, colour);
    }
}

/// Draws a door and a shop window, either of them on the left.
fn front(sheet: &mut Sheet, left: i64, width: i64) {
    let colours = sheet.colours;
    let door_left = sheet.seed.between(0, 1) == 0;
    let (door, window) =
        if door_left { (left + 22, left + 90) } else { (left + width - 72, left + 22) };
    sheet.rect([door, 196, 50, 80], 4, colours.dark);
    sheet.oval([door + 40, 238], [3, 3], colours.accent);
    sheet.rect([window, 200, width - 112, 54], 4, colours.sky);
    let things = sheet.seed.between(3, 5);
    for nth in 0..things {
        let x = window + 18 + nth * (width - 140) / things;
        let size = sheet.seed.between(8, 15);
        let colour = sheet.seed.pick(&[colours.accent, colours.pale, colours.body]);
        sheet.oval([x + 8, 254 - size], [size, size], colour);
    }
}

/// Draws sky, sun, mountains, water and a boat or a tree.
pub(super) fn landscape(sheet: &mut Sheet) {
    let colours = sheet.colours;
    sheet.rect([0, 0, 480, 320], 0, colours.sky);
    let (x, y) = (sheet.seed.between(70, 410), sheet.seed.between(50, 110));
    let size = sheet.seed.between(24, 44);
    sheet.oval([x, y], [size, size], colours.accent);
    for (base, colour) in [(200, colours.pale), (224, colours.body)] {
        let mut outline = format!("M0 {base}");
        let mut at = 0;
        while at < 480 {
            let wide = sheet.seed.between(70, 150);
            let peak = base - sheet.seed.between(30, 110);
            outline.push_str(&format!(" L{} {peak} L{} {base}", at + wide / 2, at + wide));
            at += wide;
        }
        outline.push_str(" V320 H0Z");
        sheet.path(&outline, colour);
    }
    sheet.rect([0, 222, 480, 98], 0, colours.dark);
    for _ in 0..sheet.seed.between(4, 7) {
        let (x, y) = (sheet.seed.between(10, 400), sheet.seed.between(236, 306));
        let wide = sheet.seed.between(24, 70);
        sheet.line(&format!("M{x} {y} h{wide}"), 3, colours.body);
    }
    match sheet.seed.between(0, 2) {
        0 => boat(sheet),
        1 => tree(sheet),
        _ => {
            boat(sheet);
            tree(sheet);
        }
    }
}

fn boat(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let x = sheet.seed.between(60, 240);
    sheet.path(&format!("M{x} 262 h90 l-16 22 h-58Z"), colours.accent);
    sheet.path(&format!("M{} 256 V190 l40 60Z", x + 42), colours.sky);
}

fn tree(sheet: &mut Sheet) {
    let colours = sheet.colours;
    let x = sheet.seed.between(300, 440);
    sheet.rect([x - 6, 210, 12, 110], 4, colours.pale);
    for (dx, dy, size) in [(0, 170, 46), (-34, 200, 30), (34, 196, 32)] {
        sheet.oval([x + dx, dy], [size, size], colours.body);
    }
}
