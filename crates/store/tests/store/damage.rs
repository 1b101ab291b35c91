//! Damaged packs: found on read, named by fsck, repaired where possible.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use agentiso_store::{
    GcOptions, ObjectKind, Objects, Root, StoreError, TreeId, TreePath, check, collect, lookup, repair,
};

use crate::support::*;

fn only_pack(place: &Place) -> PathBuf {
    let mut packs = place.files_below("packs");
    assert_eq!(packs.len(), 1);
    packs.pop().unwrap()
}

/// Changes a byte of the first occurrence of a text in the pack.
fn corrupt(pack: &PathBuf, text: &[u8]) {
    let bytes = fs::read(pack).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let file = fs::OpenOptions::new().write(true).open(pack).unwrap();
    file.write_all_at(&[bytes[at] ^ 0x20], at as u64).unwrap();
}

fn named(tree: TreeId) -> Vec<(String, Root)> {
    vec![("vault".to_owned(), Root::Tree(tree))]
}

/// Short texts are not compressed, so they can be found in the pack.
const FILES: &[(&str, &str)] = &[("docs/a", "text of a"), ("docs/b", "text of b"), ("c", "text of a")];

#[test]
fn a_damaged_blob_is_noticed_named_and_restored_from_a_directory() {
    let place = Place::new();
    let (tree, _lease) = place.tree(FILES);
    corrupt(&only_pack(&place), b"text of a");
    let store = place.reopened();
    let Some(agentiso_store::Node::File(file)) = lookup(&store, tree, &path("c")).unwrap() else { panic!() };
    let error = agentiso_store::read_content(&store, file.content, file.size, 100).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");

    let report = check(&store, &named(tree)).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(report.damage[0].object.unwrap().0, ObjectKind::Blob);
    let mut affected: Vec<_> =
        report.affected.iter().map(|one| (one.root.as_str(), one.path.to_string())).collect();
    affected.sort();
    assert_eq!(affected, [("vault", "/c".to_owned()), ("vault", "/docs/a".to_owned())]);

    let without = repair(&store, &named(tree), None).unwrap();
    assert_eq!((without.restored, without.remaining.len()), (0, 2));
    write(&place.path("backup/anywhere"), "text of a");
    let with = repair(&store, &named(tree), Some(&place.path("backup"))).unwrap();
    assert_eq!((with.restored, with.remaining.len()), (1, 0), "{with:?}");
    assert!(check(&place.reopened(), &named(tree)).unwrap().is_clean());
    assert_eq!(texts(&place.reopened(), tree).get("/c").unwrap(), "text of a");
    assert_eq!(fs::read_dir(place.store.root().join("damaged")).unwrap().count(), 1);
}

#[test]
fn a_second_copy_is_used_when_the_first_is_damaged() {
    let place = Place::new();
    let other = place.reopened();
    let (one, two) = (place.store.begin().unwrap(), other.begin().unwrap());
    let (made, _) = (tree(&one, FILES), tree(&two, FILES));
    let _first = one.commit(&[Root::Tree(made)]).unwrap();
    let _second = two.commit(&[Root::Tree(made)]).unwrap();
    let packs = place.files_below("packs");
    assert_eq!(packs.len(), 2);
    corrupt(&packs[0], b"text of a");
    let store = place.reopened();
    assert_eq!(texts(&store, made).len(), 3);
    let report = check(&store, &named(made)).unwrap();
    assert_eq!((report.damage.len(), report.affected.len()), (1, 0));
    let repaired = repair(&store, &named(made), None).unwrap();
    assert_eq!(repaired.quarantined.len(), 1);
    assert!(check(&place.reopened(), &named(made)).unwrap().is_clean());
}

#[test]
fn a_pack_without_its_end_is_rebuilt_from_its_records() {
    let place = Place::new();
    let (tree, _lease) = place.tree(FILES);
    let pack = only_pack(&place);
    let len = fs::metadata(&pack).unwrap().len();
    fs::OpenOptions::new().write(true).open(&pack).unwrap().set_len(len - 100).unwrap();
    let store = place.reopened();
    let error = store.object(ObjectKind::Directory, &tree.0).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    let refused = collect(&store, GcOptions::default(), roots(&[]));
    assert!(
        matches!(refused, Err(StoreError::Damaged { .. })),
        "a collection must not continue: {refused:?}"
    );
    let repaired = repair(&store, &named(tree), None).unwrap();
    assert_eq!(repaired.remaining, []);
    assert_eq!(texts(&place.reopened(), tree).len(), 3);
}

#[test]
fn damage_in_the_index_is_found() {
    let place = Place::new();
    let (tree, _lease) = place.tree(FILES);
    let pack = only_pack(&place);
    let len = fs::metadata(&pack).unwrap().len();
    let file = fs::OpenOptions::new().read(true).write(true).open(&pack).unwrap();
    // The last entry of the index, before the fan-out and the footer.
    let at = len - 72 - 4 - 40;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let report = check(&place.reopened(), &named(tree)).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(report.damage[0].object, None);
    assert_eq!(repair(&place.store, &named(tree), None).unwrap().remaining, []);
    assert!(check(&place.reopened(), &named(tree)).unwrap().is_clean());
}

#[test]
fn a_lost_directory_comes_back_with_the_import_it_came_from() {
    let place = Place::new();
    fill(&place.path("in"), 2, 2);
    let (imported, _lease) = place.import("in");
    for pack in place.files_below("packs") {
        fs::write(&pack, b"nothing of it is left").unwrap();
    }
    let store = place.reopened();
    let report = check(&store, &named(imported.tree)).unwrap();
    assert_eq!(report.affected.len(), 1);
    assert_eq!(report.affected[0].path, TreePath::root());
    let repaired = repair(&store, &named(imported.tree), Some(&place.path("in"))).unwrap();
    assert_eq!(repaired.remaining, []);
    assert_eq!(texts(&place.reopened(), imported.tree).len(), 4);
}

#[test]
fn a_collection_keeps_a_pack_with_a_damaged_live_object() {
    let place = Place::new();
    let (tree, lease) = place.tree(FILES);
    let (_, garbage) = place.tree(&[("garbage", "garbage")]);
    drop((lease, garbage));
    for pack in place.files_below("packs") {
        if fs::read(&pack).unwrap().windows(9).any(|window| window == b"text of a") {
            corrupt(&pack, b"text of a");
        }
    }
    let store = place.reopened();
    let report = collect(&store, GcOptions { min_waste_percent: 0 }, roots(&[tree])).unwrap();
    assert_eq!(report.removed_objects, 2, "{report:?}");
    assert_eq!(check(&store, &named(tree)).unwrap().affected.len(), 2);
    assert_eq!(agentiso_store::directory(&store, tree).unwrap().entries.len(), 2);
}
