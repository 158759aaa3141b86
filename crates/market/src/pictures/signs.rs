//! Signs for shop types: ten of them, and stars for all others.

use super::Sheet;

/// Draws a round plate with one sign on it.
pub(super) fn sign(sheet: &mut Sheet, id: u64) {
    let colours = sheet.colours;
    sheet.oval([80, 80], [80, 80], colours.pale);
    sheet.oval([80, 80], [66, 66], colours.sky);
    let (line, fill) = (colours.dark, colours.accent);
    match id {
        // A bowl with chopsticks.
        1 => {
            sheet.path("M36 80 H124 Q120 120 80 122 Q40 120 36 80Z", fill);
            sheet.line("M70 76 L104 34 M84 76 L116 40", 5, line);
        }
        // A cup.
        2 => {
            sheet.path("M44 62 H104 V92 Q102 116 74 116 Q46 116 44 92Z", fill);
            sheet.line(
                "M104 70 q22 0 18 18 q-4 12 -20 12 M62 50 q-6 -10 0 -18 M82 50 q-6 -10 0 -18",
                5,
                line,
            );
        }
        // A microphone.
        3 => {
            sheet.oval([92, 56], [22, 22], fill);
            sheet.path("M74 66 L84 76 L48 124 L36 112Z", line);
        }
        // An open book.
        4 => {
            sheet.path(
                "M80 54 Q56 38 34 50 V112 Q56 102 80 116 Q104 102 126 112 V50 Q104 38 80 54Z",
                fill,
            );
            sheet.line("M80 54 V116", 4, line);
        }
        // A ball in the air.
        5 => {
            sheet.oval([80, 72], [34, 34], fill);
            sheet.line("M48 60 Q80 84 112 60 M80 38 Q64 72 80 106 M50 122 H110", 4, line);
        }
        // Scissors.
        6 => {
            sheet.line("M54 40 L98 104 M106 40 L62 104", 6, line);
            sheet.oval([54, 112], [13, 13], fill);
            sheet.oval([106, 112], [13, 13], fill);
        }
        // A glass.
        7 => {
            sheet.path("M42 44 H118 L80 88Z", fill);
            sheet.line("M80 88 V118 M58 120 H102", 6, line);
        }
        // Steam over a bath.
        8 => {
            sheet.path("M34 88 H126 Q122 122 80 122 Q38 122 34 88Z", fill);
            sheet.line("M58 76 q-8 -12 0 -22 q8 -10 0 -20 M80 76 q-8 -12 0 -22 q8 -10 0 -20 M102 76 q-8 -12 0 -22 q8 -10 0 -20", 5, line);
        }
        // A film clapper.
        9 => {
            sheet.rect([38, 66, 84, 52], 6, fill);
            sheet.path("M36 62 L114 36 L120 50 L42 66Z", line);
        }
        // A kite.
        10 => {
            sheet.path("M80 30 L112 66 L80 104 L48 66Z", fill);
            sheet.line("M80 30 V104 M48 66 H112 M80 104 q-10 10 0 18 q8 8 -2 16", 4, line);
        }
        _ => star(sheet),
    }
}

/// Draws a star with a random number of points.
fn star(sheet: &mut Sheet) {
    let points = sheet.seed.between(5, 12);
    let inner = sheet.seed.between(16, 34) as f64;
    let mut outline = String::new();
    for nth in 0..points * 2 {
        let angle = std::f64::consts::PI * nth as f64 / points as f64;
        let far = if nth % 2 == 0 { 52.0 } else { inner };
        let (x, y) = (80.0 + far * angle.sin(), 80.0 - far * angle.cos());
        let step = if nth == 0 { 'M' } else { 'L' };
        outline.push_str(&format!("{step}{x:.0} {y:.0} "));
    }
    outline.push('Z');
    let accent = sheet.colours.accent;
    sheet.path(&outline, accent);
}
