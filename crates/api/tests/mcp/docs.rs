//! Checks that the generated page of tools is up to date. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;
use std::{env, fs};

use agentiso_api::mcp::reference;

#[test]
fn the_page_of_tools_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, reference::page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written == reference::page(),
        "run the tests once with UPDATE_DOCS=1 to rewrite {}",
        path.display()
    );
}
