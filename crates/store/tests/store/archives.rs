//! Tar archives in and out.

use std::process::Command;

use agentiso_store::{
    MaterialiseOptions, Node, StoreError, TarLimits, lookup, materialise, read_tar, write_tar,
};
use tar::{Builder, EntryType, Header};

use crate::support::*;

#[test]
fn a_tree_survives_an_archive() {
    let place = Place::new();
    let root = place.path("in");
    fill(&root, 2, 3);
    write(&root.join(format!("{}/{}", "d".repeat(200), "f".repeat(255))), "long name");
    std::os::unix::fs::symlink("x".repeat(300), root.join("long-link")).unwrap();
    std::fs::hard_link(root.join("dir-0/file-1"), root.join("zz-second")).unwrap();
    rustix::fs::setxattr(root.join("dir-0"), "user.k", b"v\n=1", rustix::fs::XattrFlags::empty()).unwrap();
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    let (imported, _lease) = place.import("in");
    let archive = write_tar(&place.store, imported.tree, Vec::new()).unwrap();
    let session = place.store.begin().unwrap();
    let read = read_tar(&session, &archive[..], TarLimits::default()).unwrap();
    assert_eq!(read.tree, imported.tree);
    assert_eq!(read.skipped, []);
}

#[test]
fn other_programs_agree_about_archives() {
    let place = Place::new();
    fill(&place.path("in"), 2, 3);
    std::os::unix::fs::symlink("dir-0", place.path("in/link")).unwrap();
    let (imported, _lease) = place.import("in");
    let archive = write_tar(&place.store, imported.tree, Vec::new()).unwrap();
    write(&place.path("ours.tar"), archive);
    std::fs::create_dir(place.path("out")).unwrap();
    let tar = |arguments: &[&str]| {
        let status = Command::new("tar").current_dir(place.dir.path()).args(arguments).status().unwrap();
        assert!(status.success());
    };
    tar(&["--extract", "--preserve-permissions", "--file", "ours.tar", "--directory", "out"]);
    assert_eq!(place.import("out").0.tree, imported.tree);
    tar(&["--create", "--format=posix", "--file", "theirs.tar", "--directory", "in", "."]);
    let session = place.store.begin().unwrap();
    let theirs = std::fs::File::open(place.path("theirs.tar")).unwrap();
    assert_eq!(read_tar(&session, theirs, TarLimits::default()).unwrap().tree, imported.tree);
}

/// Name, type, target and content of an entry.
type Written<'w> = (&'w str, EntryType, &'w str, &'w [u8]);

/// An archive of entries with any name, which the library would refuse to write.
fn archive(entries: &[Written<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, link, data) in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        (header.as_old_mut().name[..name.len()]).copy_from_slice(name.as_bytes());
        (header.as_old_mut().linkname[..link.len()]).copy_from_slice(link.as_bytes());
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn hostile_archives_are_refused_or_contained() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let read = |entries: &[Written<'_>]| {
        read_tar(&session, &archive(entries)[..], TarLimits { entries: 3, bytes: 100 })
    };
    let refused: [&[Written<'_>]; 6] = [
        &[("../up", EntryType::Regular, "", b"x")],
        &[("a/../../up", EntryType::Regular, "", b"x")],
        &[("link", EntryType::Symlink, "/etc", b""), ("link/passwd", EntryType::Regular, "", b"x")],
        &[("hard", EntryType::Link, "../../etc/passwd", b"")],
        &[("big", EntryType::Regular, "", &[1; 101])],
        &[
            ("1", EntryType::Regular, "", b""),
            ("2", EntryType::Regular, "", b""),
            ("3", EntryType::Regular, "", b""),
            ("4", EntryType::Regular, "", b""),
        ],
    ];
    for entries in refused {
        let result = read(entries);
        assert!(matches!(result, Err(StoreError::Archive { .. })), "{entries:?}: {result:?}");
    }
    let absolute = read(&[("/etc/passwd", EntryType::Regular, "", b"x")]).unwrap();
    assert!(matches!(lookup(&session, absolute.tree, &path("etc/passwd")), Ok(Some(Node::File(_)))));
    let device = read(&[("null", EntryType::Char, "", b"")]).unwrap();
    assert_eq!(device.skipped, [path("null")]);
    let cut = archive(&[("file", EntryType::Regular, "", &[7; 1000])]);
    assert!(read_tar(&session, &cut[..900], TarLimits::default()).is_err());
}

#[test]
fn an_archive_with_absolute_links_is_exported_below_the_destination() {
    let place = Place::new();
    let (tree, _lease) = place.committed(|session| {
        let bytes =
            archive(&[("link", EntryType::Symlink, "/etc", b""), ("file", EntryType::Regular, "", b"x")]);
        read_tar(session, &bytes[..], TarLimits::default()).unwrap().tree
    });
    materialise(&place.store, tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    assert_eq!(std::fs::read_link(place.path("out/link")).unwrap().to_str(), Some("/etc"));
    assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 2);
}
