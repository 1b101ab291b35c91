//! The life of a working directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use agentiso_mounts::{Access, IngestOptions, Kind, MountError, Support, WorkDirOptions, WorkDirs};
use agentiso_store::{ChangeKind, GcOptions, Node, StoreError, TreePath, collect, directory_meta, lookup};

use crate::support::*;

#[test]
fn changes_are_read_back_any_number_of_times() {
    everywhere("workdirs::changes");
}

#[test]
#[ignore = "run by another test"]
fn changes() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 4, 4));
    let workdir = place.create(tree, Kind::Auto);
    assert_eq!(workdir.kind(), Kind::Overlay);
    assert!(!workdir.is_touched().unwrap());
    let nothing = place.ingest(&workdir);
    assert_eq!((nothing.tree, nothing.changes.total), (tree, 0));
    place.run(&workdir, "echo changed > dir-0/file-0; rm dir-1/file-1; mkdir new; mv dir-2/file-2 new/moved");
    assert!(workdir.is_touched().unwrap());
    let first = place.ingest(&workdir);
    let kinds: Vec<_> =
        first.changes.list.iter().map(|change| (change.path.to_string(), change.kind)).collect();
    let expected = [
        ("/dir-0/file-0", ChangeKind::Modified),
        ("/dir-1/file-1", ChangeKind::Deleted),
        ("/new", ChangeKind::Created),
        ("/new/moved", ChangeKind::Renamed),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!(first.before, tree);
    assert_eq!(place.differences(place.shown(&workdir), first.tree, true), Vec::<String>::new());
    // The next one says only what changed since.
    place.run(&workdir, "rm -r new; echo again >> dir-0/file-0; chmod 700 dir-3");
    let second = place.ingest(&workdir);
    assert_eq!((second.before, second.changes.total), (first.tree, 4));
    assert_eq!(place.differences(place.shown(&workdir), second.tree, true), Vec::<String>::new());
    assert_eq!(workdir.current().unwrap(), second.tree);
    assert_eq!(workdir.tree(), tree);
    workdir.remove().unwrap();
    assert_eq!(place.dirs.list().unwrap(), []);
}

#[test]
fn a_change_of_the_root_alone_is_noticed() {
    let place = Place::new();
    let workdir = place.create(place.tree(|root| fill(root, 1, 1)), Kind::Overlay);
    place.run(&workdir, "chmod 711 .");
    assert!(workdir.is_touched().unwrap());
    let ingested = place.ingest(&workdir);
    assert_eq!(ingested.changes.list.first().unwrap().after.as_ref().unwrap().meta.mode, 0o711);
}

#[test]
fn a_reset_shows_another_tree_and_discards_changes() {
    everywhere("workdirs::reset");
}

#[test]
#[ignore = "run by another test"]
fn reset() {
    let place = Place::new();
    let trees: Vec<_> = (1..4).map(|number| place.tree(|root| fill(root, number, 2))).collect();
    for kind in [Kind::Overlay, Kind::Plain] {
        let mut workdir = place.create(*trees.first().unwrap(), kind);
        for tree in &trees {
            let path = workdir.writable();
            fs::write(path.join("discarded"), "x").unwrap();
            workdir.reset(*tree).unwrap();
            assert!(!path.exists());
            assert_eq!(place.shown(&workdir), *tree);
            assert_eq!(place.ingest(&workdir).tree, *tree);
        }
        workdir.remove().unwrap();
    }
}

#[test]
fn a_held_directory_cannot_be_claimed_and_a_dropped_one_keeps_its_changes() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let workdir = place.create(tree, Kind::Overlay);
    let name = workdir.name().to_owned();
    let other = Place::open(&place.root, agentiso_mounts::LayoutOptions::default());
    assert!(matches!(other.dirs.claim(&name), Err(MountError::Busy { .. })));
    assert!(other.dirs.abandoned().unwrap().is_empty());
    let visitor = other.dirs.visit(&name).unwrap();
    place.run(&workdir, "echo x > file");
    assert_eq!(visitor.ingest(&IngestOptions::default()).unwrap().changes.total, 1);
    assert!(matches!(visitor.remove(), Err(MountError::Busy { .. })));
    assert_eq!(place.ingest(&workdir).changes.total, 0, "the visitor has recorded it");
    drop(workdir);
    let mut found = other.dirs.abandoned().unwrap();
    let workdir = found.pop().unwrap();
    assert_eq!((workdir.name(), workdir.label().as_str(), found.len()), (&*name, "test", 0));
    assert_eq!(place.run(&workdir, "cat file"), "x\n");
    workdir.remove().unwrap();
    assert!(matches!(other.dirs.claim(&name), Err(MountError::NotFound { .. })));
    assert!(matches!(other.dirs.claim("../store"), Err(MountError::Invalid { .. })));
}

#[test]
fn two_working_directories_of_one_tree_do_not_see_each_other() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    let (one, two) = (place.create(tree, Kind::Overlay), place.create(tree, Kind::Overlay));
    place.run(&one, "echo one > dir-0/file-0; rm -r dir-1");
    assert_eq!(place.run(&two, "ls -d dir-*; head -c 6 dir-0/file-0"), "dir-0\ndir-1\nfile 0");
    place.run(&two, "echo two > dir-0/file-0");
    assert_ne!(place.ingest(&one).tree, place.ingest(&two).tree);
    assert_eq!(place.run(&one, "cat dir-0/file-0"), "one\n");
}

#[test]
fn garbage_collection_keeps_what_working_directories_need() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    let workdir = place.create(tree, Kind::Overlay);
    place.run(&workdir, "echo x > new");
    let ingested = place.ingest(&workdir);
    let name = workdir.name().to_owned();
    drop((workdir, ingested.lease));
    place.store.unpin(&tree.to_string()).unwrap();
    let roots = || {
        place.dirs.roots().map_err(|error| StoreError::Import { path: "".into(), reason: error.to_string() })
    };
    collect(&place.store, GcOptions { min_waste_percent: 0 }, roots).unwrap();
    let workdir = place.dirs.claim(&name).unwrap();
    assert_eq!(place.ingest(&workdir).tree, ingested.tree);
    assert_eq!(place.shown(&workdir), ingested.tree);
}

#[test]
fn without_overlays_a_plain_directory_does_the_same() {
    everywhere("workdirs::plain");
}

#[test]
#[ignore = "run by another test"]
fn plain() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 3, 3));
    let support = Support::none("the test says so");
    let dirs = WorkDirs::open(place.dirs.directory(), &place.store, place.dirs.layouts(), &support).unwrap();
    let refused = dirs.create(tree, &WorkDirOptions { kind: Kind::Overlay, ..WorkDirOptions::default() });
    assert!(matches!(refused, Err(MountError::Unsupported { reason, .. }) if reason == "the test says so"));
    let workdir = dirs.create(tree, &WorkDirOptions::default()).unwrap();
    assert_eq!(workdir.kind(), Kind::Plain);
    let Access::Directory(path) = workdir.access().unwrap() else { panic!() };
    fs::write(path.join("dir-0/file-0"), "changed").unwrap();
    fs::remove_dir_all(path.join("dir-1")).unwrap();
    fs::rename(path.join("dir-2"), path.join("renamed")).unwrap();
    let ingested = place.ingest(&workdir);
    let kinds: Vec<_> = ingested.changes.list.iter().map(|change| change.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == ChangeKind::Modified).count(), 1);
    assert!(kinds.contains(&ChangeKind::Renamed) && kinds.contains(&ChangeKind::Deleted));
    assert_eq!(ingested.tree, place.import(&path));
    let again = place.ingest(&workdir);
    assert_eq!((again.tree, again.changes.total), (ingested.tree, 0));
    workdir.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn names_of_any_bytes_survive_and_links_are_not_followed() {
    everywhere("workdirs::hostile");
}

#[test]
#[ignore = "run by another test"]
fn hostile() {
    let place = Place::new();
    let odd: &[&[u8]] = &[b"new\nline", b"\xff\xfe", b"-rf", b"a:b,c\\d", b" ", b"'\"$(x)", &[b'x'; 255]];
    let tree = place.tree(|root| {
        for name in odd {
            write(root.join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name)), name);
        }
        std::os::unix::fs::symlink("/", root.join("to-root")).unwrap();
        std::os::unix::fs::symlink("../../outside", root.join("outside")).unwrap();
    });
    write(place.path("outside/kept"), "kept");
    let workdir = place.create(tree, Kind::Overlay);
    assert_eq!(place.shown(&workdir), tree);
    let script = "for d in * ; do [ -L \"$d\" ] || { echo x >> \"./$d/$d\"; touch \"./$d/new\"; }; done; \
        rm -rf outside; ln -s /etc etc";
    place.run(&workdir, script);
    let ingested = place.ingest(&workdir);
    assert_eq!(ingested.changes.total, 2 * odd.len() as u64 + 2);
    assert_eq!(place.shown(&workdir), ingested.tree);
    assert!(place.path("outside/kept").exists());
}

#[test]
fn directories_that_forbid_everything_are_read_and_removed() {
    everywhere("workdirs::forbidding");
}

#[test]
#[ignore = "run by another test"]
fn forbidding() {
    let place = Place::new();
    let tree = place.tree(|root| {
        fill(root, 2, 2);
        fs::set_permissions(root.join("dir-0"), fs::Permissions::from_mode(0o555)).unwrap();
    });
    let workdir = place.create(tree, Kind::Overlay);
    place.run(
        &workdir,
        "chmod 755 dir-0; rm dir-0/file-0; chmod 500 dir-0; mkdir -m 500 sealed; \
        mkdir -p a/b; echo x > a/b/secret; chmod 000 a/b/secret; chmod 300 a/b; chmod 000 a; \
        echo y > dir-1/unreadable; chmod 200 dir-1/unreadable; chmod 000 dir-1/file-1",
    );
    for _ in 0..2 {
        let ingested = place.ingest(&workdir);
        assert_eq!(place.differences(tree, ingested.tree, false).len(), 8);
        let mode = |name: &str| match lookup(&place.store, ingested.tree, &TreePath::parse(name).unwrap())
            .unwrap()
        {
            Some(Node::Directory(tree)) => directory_meta(&place.store, tree).unwrap().mode,
            Some(other) => other.meta().unwrap().mode,
            None => panic!("{name}"),
        };
        let modes = ["a", "a/b", "a/b/secret", "dir-1/unreadable", "dir-1/file-1"].map(mode);
        assert_eq!(modes, [0, 0o300, 0, 0o200, 0]);
        // And in the working directory.
        let upper = fs::metadata(workdir.writable().join("a")).unwrap();
        assert_eq!(upper.permissions().mode() & 0o7777, 0);
    }
    workdir.remove().unwrap();
    let left: Vec<_> =
        fs::read_dir(place.dirs.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("old")), "{left:?}");
}
