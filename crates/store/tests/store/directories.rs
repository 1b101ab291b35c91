//! Import and export of directories.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use agentiso_store::{
    ChangeOptions, Content, ImportOptions, MaterialiseOptions, Node, Reason, Reuse, Sharing, StatCache,
    changes, lookup, materialise,
};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

use crate::support::*;

/// One of everything that a tree keeps.
fn rich(root: &Path) {
    write(&root.join("docs/readme.txt"), "hello\n");
    write(&root.join("docs/empty"), "");
    write(&root.join("bin/run"), "#!/bin/sh\n");
    fs::set_permissions(root.join("bin/run"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(root.join("nothing")).unwrap();
    symlink("../outside/of/it", root.join("docs/link")).unwrap();
    fs::hard_link(root.join("docs/readme.txt"), root.join("second-name")).unwrap();
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    write(&root.join(std::ffi::OsStr::from_bytes(b"not \xff utf-8\nand two lines")), "odd");
    setxattr(root.join("docs/empty"), "user.colour", b"blue", XattrFlags::empty()).unwrap();
    setxattr(root.join("nothing"), "user.on-a-directory", b"yes", XattrFlags::empty()).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 33 << 20).unwrap();
    let large: Vec<u8> = (0..700_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    write(&root.join("large"), large);
    fs::set_permissions(root.join("nothing"), fs::Permissions::from_mode(0o555)).unwrap();
}

#[test]
fn what_is_exported_is_what_was_imported() {
    let place = Place::new();
    rich(&place.path("in"));
    let (first, _lease) = place.import("in");
    assert_eq!(first.report.notice_count, 0, "{:?}", first.report);
    assert_eq!((first.report.files, first.report.symlinks, first.report.fifos), (7, 1, 1));
    materialise(&place.store, first.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    let (second, _lease) = place.import("out");
    let changes =
        changes(&place.store, first.tree, second.tree, &ChangeOptions { times: true, ..Default::default() });
    assert_eq!(changes.unwrap().list, []);
    assert_eq!(first.tree, second.tree);
}

#[test]
fn holes_stay_holes_and_cost_nothing() {
    let place = Place::new();
    rich(&place.path("in"));
    let (imported, _lease) = place.import("in");
    let Some(Node::File(file)) = lookup(&place.store, imported.tree, &path("sparse")).unwrap() else {
        panic!()
    };
    assert_eq!(file.size, 64 << 20);
    assert!(matches!(file.content, Content::Chunked(_)));
    materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    let metadata = fs::metadata(place.path("out/sparse")).unwrap();
    assert_eq!(metadata.len(), 64 << 20);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    let mut text = [0; 13];
    fs::File::open(place.path("out/sparse")).unwrap().read_exact_at(&mut text, 33 << 20).unwrap();
    assert_eq!(&text, b"in the middle");
}

#[test]
fn hard_links_are_one_file_again() {
    let place = Place::new();
    rich(&place.path("in"));
    let (imported, _lease) = place.import("in");
    materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("out/second-name"), inode("out/docs/readme.txt"));
    assert_ne!(inode("out/bin/run"), inode("out/docs/readme.txt"));
}

#[test]
fn a_file_whose_other_name_is_outside_is_an_ordinary_file() {
    let place = Place::new();
    write(&place.path("in/one"), "text");
    write(&place.path("alone/one"), "text");
    fs::hard_link(place.path("in/one"), place.path("elsewhere")).unwrap();
    let (imported, _lease) = place.import("in");
    let Some(Node::File(file)) = lookup(&place.store, imported.tree, &path("one")).unwrap() else { panic!() };
    assert_eq!(file.link, None);
}

#[test]
fn sockets_are_reported_and_left_out() {
    let place = Place::new();
    write(&place.path("in/file"), "text");
    let _listener = UnixListener::bind(place.path("in/socket")).unwrap();
    let (imported, _lease) = place.import("in");
    let notices: Vec<_> =
        imported.report.notices.iter().map(|notice| (notice.path.to_string(), notice.reason)).collect();
    assert_eq!(notices, [("/socket".to_owned(), Reason::Socket)]);
    assert_eq!(lookup(&place.store, imported.tree, &path("socket")).unwrap(), None);
}

#[test]
fn the_store_is_not_imported_into_itself() {
    let place = Place::new();
    write(&place.path("file"), "text");
    let (imported, _lease) = place.import(".");
    assert_eq!(imported.report.notices.len(), 1);
    assert_eq!(imported.report.notices[0].reason, Reason::Store);
    assert_eq!(texts(&place.store, imported.tree).into_keys().collect::<Vec<_>>(), ["/file"]);
}

/// The bytes of a cache with one file, as an import long after its last change would have written them.
fn cache_of(file: &Path, content: Content) -> StatCache {
    let stat = fs::metadata(file).unwrap();
    let Content::Blob(id) = content else { panic!("{content:?}") };
    let nanos = |seconds: i64, nanos: i64| (seconds * 1_000_000_000 + nanos).to_le_bytes();
    let bytes = [
        &b"AiSSTAT1"[..],
        &stat.dev().to_le_bytes(),
        &1_u64.to_le_bytes(),
        &stat.ino().to_le_bytes(),
        &stat.len().to_le_bytes(),
        &nanos(stat.mtime(), stat.mtime_nsec()),
        &nanos(stat.ctime(), stat.ctime_nsec()),
        &[1],
        id.as_bytes(),
    ]
    .concat();
    let cache = StatCache::decode(&bytes).unwrap();
    assert_eq!(cache.encode(), bytes);
    cache
}

#[test]
fn a_file_with_the_same_inode_size_and_times_is_not_read_again() {
    let place = Place::new();
    write(&place.path("in/known"), "text A");
    write(&place.path("in/new"), "text C");
    // Another content than the file has, so that the result tells whether it was read.
    let (other, _lease) = place.tree(&[("b", "text B")]);
    let Some(Node::File(b)) = lookup(&place.store, other, &path("b")).unwrap() else { panic!() };
    let cache = cache_of(&place.path("in/known"), b.content);
    let options = ImportOptions { cache: Some(&cache), ..ImportOptions::default() };
    let (imported, _lease) = place.import_with("in", &options);
    assert_eq!((imported.report.files, imported.report.reused), (2, 1));
    let found = texts(&place.store, imported.tree);
    assert_eq!((found["/known"].as_str(), found["/new"].as_str()), ("text B", "text C"));
    // Any change of the file makes it be read.
    fs::set_permissions(place.path("in/known"), fs::Permissions::from_mode(0o600)).unwrap();
    let (imported, _lease) = place.import_with("in", &options);
    assert_eq!(imported.report.reused, 0);
    assert_eq!(texts(&place.store, imported.tree)["/known"], "text A");
}

#[test]
fn a_remembered_content_that_is_gone_is_read_again() {
    let place = Place::new();
    write(&place.path("in/file"), "text");
    let missing = Content::Blob(agentiso_store::ObjectId::from_bytes([7; 32]));
    let cache = cache_of(&place.path("in/file"), missing);
    let options = ImportOptions { cache: Some(&cache), ..ImportOptions::default() };
    let (imported, _lease) = place.import_with("in", &options);
    assert_eq!(imported.report.reused, 0);
    assert_eq!(texts(&place.store, imported.tree)["/file"], "text");
}

#[test]
fn a_file_changed_just_now_is_not_remembered() {
    let place = Place::new();
    fill(&place.path("in"), 1, 3);
    let (first, _lease) = place.import("in");
    assert!(first.cache.is_empty());
    let session = place.store.begin().unwrap();
    let (size, content) = first.cache.store(&session).unwrap();
    assert_eq!(StatCache::load(&session, size, content).unwrap(), first.cache);
}

#[test]
fn names_that_are_skipped_are_not_in_the_tree() {
    let place = Place::new();
    fill(&place.path("in"), 2, 2);
    let skip =
        |found: &agentiso_store::TreePath| found.is_within(&path("dir-0")) || *found == path("dir-1/file-1");
    let (imported, _lease) =
        place.import_with("in", &ImportOptions { skip: Some(&skip), ..ImportOptions::default() });
    assert_eq!(texts(&place.store, imported.tree).into_keys().collect::<Vec<_>>(), ["/dir-1/file-0"]);
}

#[test]
fn unchanged_files_are_linked_and_changed_ones_are_written() {
    let place = Place::new();
    fill(&place.path("in"), 2, 4);
    let (first, _lease) = place.import("in");
    materialise(&place.store, first.tree, &place.path("one"), &MaterialiseOptions::default()).unwrap();
    write(&place.path("in/dir-0/file-0"), "changed");
    let (second, _lease) = place.import("in");
    // A file of the other directory that is not as it was exported is not used.
    write(&place.path("one/dir-1/file-3"), "tampered with");
    let reuse = Reuse { directory: &place.path("one"), tree: first.tree, sharing: Sharing::HardLink };
    let options = MaterialiseOptions { reuse: Some(reuse), ..MaterialiseOptions::default() };
    let done = materialise(&place.store, second.tree, &place.path("two"), &options).unwrap();
    assert_eq!((done.entries, done.linked), (8, 6));
    let (third, _lease) = place.import("two");
    let changes = changes(&place.store, second.tree, third.tree, &ChangeOptions::default()).unwrap();
    assert_eq!(changes.total, 0, "{changes:?}");
}

#[test]
fn clones_fall_back_to_copies() {
    let place = Place::new();
    fill(&place.path("in"), 1, 3);
    let (imported, _lease) = place.import("in");
    materialise(&place.store, imported.tree, &place.path("one"), &MaterialiseOptions::default()).unwrap();
    let reuse = Reuse { directory: &place.path("one"), tree: imported.tree, sharing: Sharing::Reflink };
    let options = MaterialiseOptions { reuse: Some(reuse), ..MaterialiseOptions::default() };
    let done = materialise(&place.store, imported.tree, &place.path("two"), &options).unwrap();
    assert_eq!((done.entries, done.linked), (3, 0));
    assert_eq!(place.import("two").0.tree, imported.tree);
}

#[test]
fn a_destination_with_files_is_refused_and_an_empty_one_is_filled() {
    let place = Place::new();
    fill(&place.path("in"), 1, 1);
    let (imported, _lease) = place.import("in");
    fs::create_dir(place.path("out")).unwrap();
    materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    let error = materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default());
    assert!(matches!(error, Err(agentiso_store::StoreError::Exists { .. })), "{error:?}");
    symlink("nowhere", place.path("dangling")).unwrap();
    let error =
        materialise(&place.store, imported.tree, &place.path("dangling"), &MaterialiseOptions::default());
    assert!(matches!(error, Err(agentiso_store::StoreError::Exists { .. })), "{error:?}");
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 4, "a partial directory is left");
}

#[test]
fn setuid_is_left_out_without_the_owner() {
    let place = Place::new();
    write(&place.path("in/tool"), "x");
    fs::set_permissions(place.path("in/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    let (imported, _lease) = place.import("in");
    materialise(&place.store, imported.tree, &place.path("out"), &MaterialiseOptions::default()).unwrap();
    assert_eq!(fs::metadata(place.path("out/tool")).unwrap().mode() & 0o7777, 0o755);
}
