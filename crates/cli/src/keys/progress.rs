//! Progress bars; hidden if stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over keys.
pub(super) fn keys(total: u64) -> ProgressBar {
    bar(total, "{bar:30} {human_pos} of {human_len} keys, {per_sec}, {eta} left {msg}")
}

/// A bar over the bytes of a file.
pub(super) fn file(total: u64) -> ProgressBar {
    bar(total, "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left {msg}")
}

fn bar(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates are fixed and valid");
    ProgressBar::new(total).with_style(style)
}
