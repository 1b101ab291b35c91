use std::os::unix::fs::symlink;

use super::*;
use crate::paths::Environment;

fn paths(home: &Path) -> Paths {
    let environment = Environment { agentiso_home: Some(home.to_owned()), ..Environment::default() };
    Paths::resolve(&environment, None, &|_| false).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn write(path: &Path, with: u32) {
    fs::write(path, "x").unwrap();
    chmod(path, with);
}

/// A home directory as left by an older version.
fn loose_home() -> (tempfile::TempDir, Paths) {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(&dir.path().join("home"));
    for below in ["images/debian", "memory/one", "templates/key", "disks", "cache/blobs", "workspaces/id"] {
        fs::create_dir_all(paths.home.join(below)).unwrap();
    }
    for entry in ["", "images", "images/debian", "memory", "memory/one", "templates", "templates/key"] {
        chmod(&paths.home.join(entry), 0o755);
    }
    for entry in ["disks", "cache", "cache/blobs", "workspaces"] {
        chmod(&paths.home.join(entry), 0o755);
    }
    chmod(&paths.home.join("workspaces/id"), 0o711);
    write(&paths.home.join("state.db"), 0o644);
    write(&paths.home.join("images/debian/rootfs.raw"), 0o444);
    write(&paths.home.join("memory/one/pack"), 0o644);
    write(&paths.home.join("templates/key/ram"), 0o644);
    write(&paths.home.join("disks/disk"), 0o664);
    write(&paths.home.join("cache/blobs/layer"), 0o644);
    (dir, paths)
}

/// Everything below a directory, including itself. Links are not followed.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(all(&path))
        } else {
            found.push(path)
        }
    }
    found
}

#[test]
fn an_older_home_is_restricted_to_its_user() {
    let (_dir, paths) = loose_home();
    secure(&paths, None).unwrap();
    for path in all(&paths.home) {
        assert_eq!(mode(&path) & 0o077, 0, "{}: {:o}", path.display(), mode(&path));
    }
    assert_eq!(mode(&paths.home.join("images/debian/rootfs.raw")), 0o400);
    assert_eq!(mode(&paths.home.join("disks/disk")), 0o600);
    assert_eq!(mode(&paths.home.join("bases")), 0o700);
}

#[test]
fn the_qemu_group_can_read_only_what_qemu_opens() {
    let (dir, paths) = loose_home();
    // An ordinary user can only use a group of their own.
    let group = fs::metadata(dir.path()).unwrap().gid();
    secure(&paths, Some(group)).unwrap();
    let wanted = [
        ("", 0o710),
        ("disks", 0o710),
        ("disks/disk", 0o600),
        ("images", 0o2710),
        ("images/debian", 0o2710),
        ("images/debian/rootfs.raw", 0o440),
        ("templates/key/ram", 0o640),
        ("workspaces/id", 0o2710),
        ("memory", 0o700),
        ("memory/one/pack", 0o600),
        ("cache", 0o710),
        ("cache/blobs", 0o700),
        ("cache/blobs/layer", 0o600),
        ("state.db", 0o600),
    ];
    for (path, wanted) in wanted {
        let found = mode(&paths.home.join(path));
        assert_eq!(found, wanted, "{path}: {found:o} instead of {wanted:o}");
    }
    // New entries inherit the group.
    fs::create_dir(paths.images_dir().join("new")).unwrap();
    assert_eq!(fs::metadata(paths.images_dir().join("new")).unwrap().gid(), group);
}

#[test]
fn directories_with_the_right_mode_are_not_traversed() {
    let (_dir, paths) = loose_home();
    secure(&paths, None).unwrap();
    // It is unreachable for others, so it need not be checked.
    write(&paths.home.join("memory/one/late"), 0o644);
    secure(&paths, None).unwrap();
    assert_eq!(mode(&paths.home.join("memory/one/late")), 0o644);
}

#[test]
fn links_are_not_followed_out_of_the_home() {
    let (dir, paths) = loose_home();
    let (outside, file) = (dir.path().join("outside"), dir.path().join("outside/file"));
    fs::create_dir(&outside).unwrap();
    write(&file, 0o644);
    chmod(&outside, 0o755);
    symlink(&outside, paths.home.join("memory/to-a-directory")).unwrap();
    symlink(&file, paths.home.join("memory/to-a-file")).unwrap();
    symlink(&file, paths.home.join("link")).unwrap();
    secure(&paths, None).unwrap();
    assert_eq!((mode(&outside), mode(&file)), (0o755, 0o644));
    assert_eq!(mode(&paths.memory_dir()), 0o700);
}

#[test]
fn a_shared_directory_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    chmod(dir.path(), 0o1777);
    secure(&paths(dir.path()), None).unwrap();
    assert_eq!(mode(dir.path()), 0o1777);
    assert_eq!(mode(&dir.path().join("disks")), 0o700);
}
