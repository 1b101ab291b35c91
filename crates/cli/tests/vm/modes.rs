//! Permissions of an installation after real use.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::place::Place;

/// Everything in an installation. Follows links to what tests share, which belongs to an installation too.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_link = fs::symlink_metadata(&path).unwrap().is_symlink();
        if is_link && !path.is_dir() {
            continue;
        }
        // Other tests create and remove files in the shared cache.
        if path.is_dir() && !(is_link && path.ends_with("cache")) {
            found.extend(all(&path));
        }
        found.push(path);
    }
    found
}

fn assert_closed(home: &Path) {
    let home_mode = fs::metadata(home).unwrap().mode();
    assert_eq!(home_mode & 0o067, 0, "{}: {home_mode:o}", home.display());
    let mut seen = 0;
    for path in all(home) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_symlink() {
            continue;
        }
        let mode = meta.mode() & 0o7777;
        let of_root = meta.uid() == 0;
        let allowed = match (meta.is_dir(), of_root) {
            // If agentiso is root, QEMU runs as another user and traverses directories to its files.
            (true, true) => 0o2710,
            (true, false) => 0o2700,
            (false, true) => 0o740,
            (false, false) => 0o700,
        };
        assert_eq!(mode & !allowed, 0, "{} has mode {mode:o}", path.display());
        if mode & 0o070 != 0 {
            assert_ne!(meta.gid(), 0, "{} is open to root's group, which is not QEMU's", path.display());
        }
        seen += 1;
    }
    assert!(seen > 20, "only {seen} files and directories were looked at");
}

#[test]
fn other_users_can_read_nothing_and_an_older_home_is_restricted() {
    let place = Place::with("web");
    place.sh("web", "echo secret > /root/secret");
    place.text(&["snapshot", "create", "web", "with-memory", "--memory"]);
    place.text(&["fork", "web", "--name", "copy"]);
    place.text(&["stop", "copy"]);
    assert_closed(place.path());
    for file in ["state.db", "daemon.log", "daemon.lock"] {
        assert_eq!(fs::metadata(place.path().join(file)).unwrap().mode() & 0o777, 0o600, "{file}");
    }

    // The permissions of earlier versions.
    for path in all(place.path()) {
        let meta = fs::symlink_metadata(&path).unwrap();
        let shared = fs::canonicalize(&path).is_ok_and(|real| !real.starts_with(place.path()));
        if !shared && (meta.is_dir() || meta.is_file()) {
            fs::set_permissions(&path, Permissions::from_mode(if meta.is_dir() { 0o755 } else { 0o644 }))
                .unwrap();
        }
    }
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    // An upgrade comes with a new daemon.
    place.text(&["daemon", "stop"]);
    place.text(&["ls"]);
    assert_closed(place.path());
    assert_eq!(place.sh("web", "cat /root/secret").trim_end(), "secret");
    place.text(&["start", "copy"]);
    assert_eq!(place.sh("copy", "cat /root/secret").trim_end(), "secret");
}
