//! Renames of directories of the lower layer, which the kernel refuses.

use std::fs;
use std::os::unix::fs::MetadataExt;

use agentiso_mounts::{IngestOptions, Kind, Running};

use crate::support::*;

#[test]
fn programs_that_only_rename_are_served() {
    everywhere("renames::served");
}

#[test]
#[ignore = "run by another test"]
fn served() {
    let place = Place::new();
    let tree = place.tree(|root| {
        fill(root, 3, 3);
        write(root.join("dir-0/deep/er/file"), "deep");
        std::os::unix::fs::symlink("file-0", root.join("dir-0/link")).unwrap();
    });
    let workdir = place.create(tree, Kind::Overlay);
    place.run_test(&workdir, "renames::rename_here");
    let ingested = place.ingest(&workdir);
    let shown = place.shown(&workdir);
    assert_eq!(place.differences(shown, ingested.tree, true), Vec::<String>::new());
    let renamed = ingested.changes.list.iter().filter(|change| change.old_path.is_some()).count();
    assert!(renamed > 0, "{:?}", ingested.changes.list);
}

#[test]
#[ignore = "run by another test"]
fn rename_here() {
    let before = fs::metadata("dir-0").unwrap();
    let open = fs::OpenOptions::new().append(true).open("dir-0/file-1").unwrap();
    fs::rename("dir-0", "moved").unwrap();
    let after = fs::metadata("moved").unwrap();
    assert_eq!(
        (before.mtime(), before.mtime_nsec(), before.mode()),
        (after.mtime(), after.mtime_nsec(), after.mode())
    );
    assert!(!fs::exists("dir-0").unwrap());
    assert_eq!(fs::read_to_string("moved/deep/er/file").unwrap(), "deep");
    assert_eq!(fs::read_link("moved/link").unwrap().to_str(), Some("file-0"));
    // A file that is open stays the same file.
    std::io::Write::write_all(&mut &open, b"appended").unwrap();
    assert!(fs::read_to_string("moved/file-1").unwrap().ends_with("appended"));
    // Onto an empty directory, into another one, and what must be refused.
    fs::create_dir("empty").unwrap();
    fs::rename("dir-1", "empty").unwrap();
    assert_eq!(fs::read_dir("empty").unwrap().count(), 3);
    let refused = |from: &str, to: &str| fs::rename(from, to).unwrap_err().raw_os_error().unwrap();
    assert_eq!(refused("dir-2", "moved"), libc::ENOTEMPTY);
    assert_eq!(refused("dir-2", "moved/file-0"), libc::ENOTDIR);
    assert_eq!(refused("dir-2", "dir-2/inside"), libc::EINVAL);
    assert_eq!(refused("none", "x"), libc::ENOENT);
    assert_eq!(refused("dir-2", "none/x"), libc::ENOENT);
    fs::rename("dir-2", "moved/deep/dir-2").unwrap();
    assert_eq!(fs::read_dir("moved/deep/dir-2").unwrap().count(), 3);
    // By an absolute path, and from a directory that the process is in.
    let here = std::env::current_dir().unwrap();
    fs::rename(here.join("moved"), here.join("moved-again")).unwrap();
    let left: Vec<_> = fs::read_dir(".").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn renames_elsewhere_are_left_to_the_kernel() {
    let place = Place::new();
    let workdir = place.create(place.tree(|root| fill(root, 1, 1)), Kind::Overlay);
    write(place.path("outside/dir/file"), "x");
    let outside = place.path("outside").display().to_string();
    place.run(
        &workdir,
        &format!("mv {outside}/dir {outside}/renamed; mv dir-0/file-0 plain; mv plain dir-0/back"),
    );
    assert!(place.path("outside/renamed/file").exists());
    assert_eq!(place.ingest(&workdir).changes.total, 1);
}

#[test]
fn a_move_that_was_killed_loses_nothing_and_its_staging_is_not_read() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 3));
    let workdir = place.create(tree, Kind::Overlay);
    let staging = format!(".avfs-moving-{}", "0".repeat(32));
    place.run(&workdir, &format!("mkdir {staging}; ln dir-0/file-0 {staging}/file-0; mkdir {staging}x"));
    let ingested =
        workdir.ingest(&IngestOptions { running: Running::Unfrozen, ..IngestOptions::default() }).unwrap();
    let found = place.differences(tree, ingested.tree, false);
    assert_eq!(found, [format!("Created /{staging}x []")]);
}
