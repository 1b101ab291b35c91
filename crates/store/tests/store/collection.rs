//! Garbage collection.

use agentiso_store::{
    Content, GcOptions, ObjectKind, Objects, Root, StoreError, TreeId, collect, lookup, store_bytes, tidy,
};

use crate::support::*;

const ALL: GcOptions = GcOptions { min_waste_percent: 0 };

fn collect_all(place: &Place, trees: &[TreeId]) -> agentiso_store::GcReport {
    collect(&place.store, ALL, roots(trees)).unwrap()
}

#[test]
fn what_no_root_reaches_is_removed_and_the_rest_is_kept() {
    let place = Place::new();
    let large: String = (0..200_000).map(|number| format!("{number} ")).collect();
    let (kept, lease) = place.tree(&[("a", "kept"), ("shared", "shared"), ("large", &large)]);
    drop(lease);
    let (gone, lease) = place.tree(&[("b", "gone"), ("shared", "shared")]);
    drop(lease);
    let report = collect_all(&place, &[kept]);
    // The text, the tree, and the empty tree that the first one was made of.
    assert_eq!(report.removed_objects, 3, "{report:?}");
    assert_eq!(texts(&place.store, kept).len(), 3);
    let error = place.reopened().object(ObjectKind::Directory, &gone.0).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    assert_eq!(collect_all(&place, &[kept]).removed_packs, 0);
    collect_all(&place, &[]);
    assert_eq!(place.store.stats().unwrap().packs, 0);
}

#[test]
fn a_lease_keeps_a_tree_until_it_ends() {
    let place = Place::new();
    let (tree, lease) = place.tree(&[("a", "text")]);
    collect_all(&place, &[]);
    assert_eq!(texts(&place.store, tree).len(), 1);
    let second = place.store.hold(Root::Tree(tree)).unwrap();
    drop(lease);
    collect_all(&place, &[]);
    assert_eq!(texts(&place.store, tree).len(), 1);
    drop(second);
    collect_all(&place, &[]);
    assert!(matches!(place.store.hold(Root::Tree(tree)), Err(StoreError::Missing { .. })));
}

#[test]
fn a_pin_keeps_a_tree_until_it_is_removed() {
    let place = Place::new();
    let (tree, lease) = place.tree(&[("a", "text")]);
    place.store.pin("mine", Root::Tree(tree)).unwrap();
    drop(lease);
    collect_all(&place, &[]);
    assert_eq!(texts(&place.reopened(), tree).len(), 1);
    assert!(place.store.unpin("mine").unwrap());
    assert!(!place.store.unpin("mine").unwrap());
    collect_all(&place, &[]);
    assert!(place.store.object(ObjectKind::Directory, &tree.0).is_err());
    for bad in ["", ".", "..", "a/b", ".hidden"] {
        assert!(place.store.pin(bad, Root::Tree(tree)).is_err(), "{bad}");
    }
}

#[test]
fn a_session_relies_on_objects_that_are_collected_before_it_commits() {
    let place = Place::new();
    let (_, lease) = place.tree(&[("a", "the same text")]);
    drop(lease);
    let session = place.store.begin().unwrap();
    let tree = tree(&session, &[("b", "the same text")]);
    // Nothing reaches the text now, and it goes together with its pack.
    let report = collect(&place.reopened(), ALL, roots(&[])).unwrap();
    assert!(report.removed_packs > 0, "{report:?}");
    let _lease = session.commit(&[Root::Tree(tree)]).unwrap();
    assert_eq!(texts(&place.reopened(), tree).get("/b").unwrap(), "the same text");
}

#[test]
fn a_tree_that_is_committed_and_recorded_while_roots_are_read_is_kept() {
    let place = Place::new();
    let writer = place.reopened();
    let mut made = None;
    let report = collect(&place.store, ALL, || {
        // The caller's records are read here. Another process commits, records its tree after that, and ends its lease.
        let session = writer.begin().unwrap();
        let new = tree(&session, &[("a", "new")]);
        drop(session.commit(&[Root::Tree(new)]).unwrap());
        made = Some(new);
        Ok::<_, StoreError>(Vec::new())
    });
    report.unwrap();
    assert_eq!(texts(&place.reopened(), made.unwrap()).len(), 1);
    // The lease that ended meanwhile is forgotten by the next collection.
    collect_all(&place, &[]);
    assert_eq!(place.files_below("leases").len(), 0);
    assert_eq!(place.store.stats().unwrap().packs, 0);
}

#[test]
fn roots_that_cannot_be_read_stop_a_collection() {
    let place = Place::new();
    let (tree, lease) = place.tree(&[("a", "text")]);
    drop(lease);
    let failed =
        collect(&place.store, ALL, || Err::<Vec<Root>, _>(StoreError::NotFound { path: path("records") }));
    assert!(matches!(failed, Err(StoreError::NotFound { .. })));
    assert_eq!(texts(&place.store, tree).len(), 1);
    let missing = TreeId::from_hex(&"0".repeat(64)).unwrap();
    let failed = collect(&place.store, ALL, roots(&[missing]));
    assert!(matches!(failed, Err(StoreError::Missing { .. })), "{failed:?}");
    assert_eq!(texts(&place.store, tree).len(), 1);
}

#[test]
fn only_one_collection_runs() {
    let place = Place::new();
    let other = place.reopened();
    collect(&place.store, ALL, || {
        let second = collect(&other, ALL, roots(&[]));
        assert!(matches!(second, Err(StoreError::Busy { .. })), "{second:?}");
        Ok::<_, StoreError>(Vec::new())
    })
    .unwrap();
}

#[test]
fn contents_are_roots_too() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let bytes: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    let content = store_bytes(&session, &bytes).unwrap();
    assert!(matches!(content, Content::Chunked(_)));
    drop(session.commit(&[Root::Content(content)]).unwrap());
    collect(&place.store, ALL, || Ok::<_, StoreError>(vec![Root::Content(content)])).unwrap();
    let read = agentiso_store::read_content(&place.store, content, bytes.len() as u64, bytes.len()).unwrap();
    assert_eq!(read, bytes);
    let range =
        agentiso_store::read_range(&place.store, content, bytes.len() as u64, 262_000, 600_000).unwrap();
    assert_eq!(range, bytes[262_000..862_000]);
}

#[test]
fn many_commits_are_joined_and_stay_readable_by_open_stores() {
    let place = Place::new();
    let reader = place.reopened();
    let trees: Vec<_> = (0..40).map(|round| place.tree(&[("file", &format!("round {round}"))])).collect();
    assert_eq!(place.files_below("packs").len(), 40);
    assert_eq!(tidy(&place.store).unwrap(), 40);
    assert_eq!(tidy(&place.store).unwrap(), 0);
    assert_eq!(place.files_below("packs").len(), 1);
    for (round, (tree, _lease)) in trees.iter().enumerate() {
        assert_eq!(texts(&reader, *tree).get("/file").unwrap(), &format!("round {round}"));
        assert!(lookup(&place.store, *tree, &path("none")).unwrap().is_none());
    }
}

#[test]
fn a_store_that_nobody_tidies_does_not_run_out_of_open_files() {
    let place = Place::new();
    let mut trees = Vec::new();
    for round in 0..140 {
        let (tree, lease) = place.tree(&[("file", &format!("round {round}"))]);
        trees.push((tree, lease));
    }
    let packs = place.files_below("packs").len();
    assert!(packs < 130, "{packs}");
    for (round, (tree, _)) in trees.iter().enumerate() {
        assert_eq!(texts(&place.store, *tree).get("/file").unwrap(), &format!("round {round}"));
    }
}

#[test]
fn statistics_count_objects_once_and_bytes_as_they_are_stored() {
    let place = Place::new();
    let (_, first) = place.tree(&[("a", "text"), ("b", "text"), ("c", &"long ".repeat(1000))]);
    place.store.pin("first", Root::Content(Content::Empty)).unwrap();
    let stats = place.store.stats().unwrap();
    assert_eq!((stats.packs, stats.pins, stats.leases, stats.temporary_files), (1, 1, 1, 0));
    let of = |kind| stats.kinds.iter().find(|stats| stats.kind == kind).copied().unwrap();
    let blobs = of(ObjectKind::Blob);
    assert_eq!((blobs.objects, blobs.raw_bytes), (2, 5004));
    assert!(blobs.stored_bytes < 500, "{blobs:?}");
    assert_eq!(of(ObjectKind::Directory).objects, 2);
    assert!(stats.pack_bytes > blobs.stored_bytes);
    drop(first);
    assert_eq!(place.store.stats().unwrap().leases, 0);
}
