//! docs/compatibility.md says what the command table says.

use std::path::Path;

#[test]
fn the_page_is_what_the_table_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = seawall_engine::compatibility_page();
    if std::env::var_os("SEAWALL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs/ can be written to");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/compatibility.md is out of date: run `cargo xtask docs` and commit it"
    );
}
