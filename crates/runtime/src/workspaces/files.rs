//! File operations that distinguish "missing" from "cannot be read".
#![expect(clippy::disallowed_methods, reason = "called through `in_place`")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The entries of a directory; none if it does not exist.
pub(super) fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        other => other?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Whether a file, directory or link exists. Links are not followed.
pub(super) fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a file; succeeds if it does not exist.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(exists(&file).unwrap());
        assert!(!exists(&dir.path().join("none")).unwrap());
        // A name longer than any file system allows: the kernel refuses to look.
        let long = dir.path().join("n".repeat(300));
        assert!(exists(&long).is_err());
        assert!(remove_file(&long).is_err());
        remove_file(&dir.path().join("none")).unwrap();
        assert!(entries(&dir.path().join("none")).unwrap().is_empty());
        assert_eq!(entries(dir.path()).unwrap(), [file]);
    }
}
