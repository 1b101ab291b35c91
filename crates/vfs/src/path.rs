//! Paths as users write them.

use agentiso_store::TreePath;

use crate::VfsError;

/// Reads a path of a vault. It is absolute whether it begins with a slash or not; `.` and `..` are resolved by name, and a
/// path that climbs above the root is an error.
pub fn parse_path(bytes: impl AsRef<[u8]>) -> Result<TreePath, VfsError> {
    let bytes = bytes.as_ref();
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in bytes.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if parts.pop().is_none() {
                    let shown = String::from_utf8_lossy(bytes).escape_debug().to_string();
                    return Err(VfsError::invalid(
                        format!("the path {shown:?}"),
                        "it leads out of the vault",
                    ));
                }
            }
            part => parts.push(part),
        }
    }
    Ok(TreePath::parse(parts.join(&b'/'))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved_and_do_not_lead_out() {
        assert_eq!(parse_path("/a/../b//./c/").unwrap().as_bytes(), b"b/c");
        assert!(parse_path("/").unwrap().is_root() && parse_path("").unwrap().is_root());
        assert!(parse_path("a/..").unwrap().is_root());
        for bad in ["..", "/../x", "a/../../x", "a\0b"] {
            assert!(parse_path(bad).is_err(), "{bad}");
        }
    }
}
