//! Names and shapes that break careless programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use agentiso_store::{
    Builder, ChangeOptions, DirectoryObject, Edit, MaterialiseOptions, MergeOptions, Meta, Node, ObjectKind,
    Objects, Root, Sides, StoreError, changes, edit, lookup, materialise, merge,
};

use crate::support::*;

#[test]
fn names_that_could_leave_a_directory_are_refused() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let node = file(&session, b"x", 1);
    for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b", &[b'n'; 256]] {
        let mut builder = Builder::new(Meta::default());
        let root = builder.root();
        assert!(builder.add(root, name, node.clone()).is_err(), "{name:?}");
        assert!(builder.add_directory(root, name, Meta::default()).is_err(), "{name:?}");
    }
}

#[test]
fn a_stored_directory_with_such_a_name_is_damage() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let tree = tree(&session, &[("ab", "x")]);
    let good = session.object(ObjectKind::Directory, &tree.0).unwrap();
    let at = good.windows(2).position(|window| window == b"ab").unwrap();
    for bad in [b"..", b"a/", b"\0a"] {
        let mut bytes = good.clone();
        bytes[at..at + 2].copy_from_slice(bad);
        // Even if its hash is right.
        let id = session.put(ObjectKind::Directory, &bytes).unwrap();
        let error = agentiso_store::directory(&session, agentiso_store::TreeId(id)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(DirectoryObject::decode(&bytes).is_err());
    }
}

#[test]
fn odd_names_survive_import_and_export() {
    let place = Place::new();
    let root = place.path("in");
    let long = [b'n'; 255];
    let names: [&[u8]; 8] =
        [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"*", b"\\", "\u{202e}txt".as_bytes(), &long];
    for name in names {
        write(&root.join(OsStr::from_bytes(name)), name);
    }
    let (imported, _lease) = place.import("in");
    assert_eq!(imported.report.files, names.len() as u64);
    materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    for name in names {
        assert_eq!(std::fs::read(place.path("out").join(OsStr::from_bytes(name))).unwrap(), name);
    }
}

#[test]
fn a_change_in_a_huge_directory_costs_one_page() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let mut builder = Builder::new(meta(0o755, 1));
    let root = builder.root();
    let node = file(&session, b"x", 1);
    for number in 0..50_000 {
        builder.add(root, format!("file-{number}").as_bytes(), node.clone()).unwrap();
    }
    let before = builder.finish(&session).unwrap();
    let changed = file(&session, b"changed", 2);
    let after = edit(
        &session,
        before,
        [(path("file-777"), Edit::Put(changed)), (path("new"), Edit::Put(node))].into(),
    )
    .unwrap();
    let pages = |tree: agentiso_store::TreeId| match DirectoryObject::decode(
        &session.object(ObjectKind::Directory, &tree.0).unwrap(),
    )
    .unwrap()
    {
        DirectoryObject::Paged { pages, .. } => {
            pages.into_iter().map(|page| page.id).collect::<std::collections::HashSet<_>>()
        }
        DirectoryObject::Whole(_) => panic!("it is not paged"),
    };
    let (old, new) = (pages(before), pages(after));
    assert!(old.len() > 100, "{}", old.len());
    assert!(new.difference(&old).count() <= 2, "{} pages changed", new.difference(&old).count());
    let found = changes(&session, before, after, &ChangeOptions::default()).unwrap();
    let paths: Vec<_> = found.list.iter().map(|change| change.path.to_string()).collect();
    assert_eq!(paths, ["/file-777", "/new"]);
    assert!(lookup(&session, after, &path("file-49999")).unwrap().is_some());
    assert!(lookup(&session, after, &path("file-50000")).unwrap().is_none());
}

/// The deepest tree that one path can name, with names of one letter.
#[test]
fn the_deepest_tree_does_not_exhaust_the_stack() {
    let place = Place::new();
    let root = place.path("in");
    let depth = 2000;
    std::fs::create_dir(&root).unwrap();
    let mut at: PathBuf = root.clone();
    // In two halves, because the path of the whole is too long for one system call.
    let deep = "d/".repeat(depth / 2);
    std::fs::create_dir_all(at.join(&deep)).unwrap();
    let directory = std::fs::File::open(at.join(&deep)).unwrap();
    at = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory)));
    std::fs::create_dir_all(at.join(&deep)).unwrap();
    std::fs::write(at.join(&deep).join("f"), "deep").unwrap();
    let (base, _lease) = place.import("in");
    assert_eq!(base.report.directories, depth as u64 + 1);
    let deepest = path(format!("{}f", "d/".repeat(depth)));
    let session = place.store.begin().unwrap();
    let ours =
        edit(&session, base.tree, [(deepest.clone(), Edit::Put(file(&session, b"ours", 3)))].into()).unwrap();
    let theirs =
        edit(&session, base.tree, [(path("new"), Edit::Put(file(&session, b"theirs", 3)))].into()).unwrap();
    let sides = Sides { base: base.tree, ours, theirs };
    let merged = merge(&session, sides, &MergeOptions::default()).unwrap();
    assert_eq!(merged.conflicts, []);
    let found = changes(&session, base.tree, merged.tree, &ChangeOptions::default()).unwrap();
    assert_eq!(found.total, 2);
    let _lease = session.commit(&[Root::Tree(merged.tree)]).unwrap();
    materialise(&place.store, merged.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    let (back, _lease) = place.import("out");
    assert_eq!(texts(&place.store, back.tree), texts(&place.store, merged.tree));
    assert_eq!(texts(&place.store, back.tree)[&deepest.to_string()], "ours");
    let too_deep = format!("{}f", "d/".repeat(2100));
    assert!(agentiso_store::TreePath::parse(too_deep).is_err());
}

/// A directory cannot contain itself, because its name is a hash; a long chain is cut off by the length of its paths.
#[test]
fn an_endless_chain_of_directories_ends() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let mut tree = empty(&session);
    for _ in 0..5000 {
        let mut builder = Builder::new(Meta::default());
        let root = builder.root();
        builder.add(root, b"d", Node::Directory(tree)).unwrap();
        tree = builder.finish(&session).unwrap();
    }
    let _lease = session.commit(&[Root::Tree(tree)]).unwrap();
    let error =
        materialise(&place.store, tree, &place.path("out"), &MaterialiseOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert!(!place.path("out").exists());
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 1);
}
