//! The Python package, with the tests in `sdk/python/tests/avfs`.

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_package_works() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let output = Command::new("python3")
        .args(["-m", "unittest", "discover", "-s", "tests/avfs", "-t", "tests/avfs"])
        .current_dir(&sdk)
        .env("PYTHONPATH", sdk.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("AVFS_BIN", env!("CARGO_BIN_EXE_avfs"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ran ") && !said.contains("Ran 0 tests"), "{said}");
}
