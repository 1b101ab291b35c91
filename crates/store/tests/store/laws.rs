//! Laws of trees, diff and merge, on random trees.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use agentiso_store::{
    Aspect, Builder, ChangeKind, ChangeOptions, DirectoryIndex, Edit, File, LinkGroup, MaterialiseOptions,
    MergeOptions, Meta, Node, Session, Sides, TarLimits, Time, TreeId, apply, changes, compare, edit, invert,
    materialise, merge, read_tar, store_bytes, write_tar,
};
use proptest::prelude::*;

use crate::support::*;

/// What a random tree consists of.
#[derive(Clone, Debug, PartialEq)]
enum Plan {
    File { mode: u16, seconds: i64, text: String, link: Option<u64> },
    Symlink(String),
    Fifo(u16),
    Directory { seconds: i64, entries: BTreeMap<String, Plan> },
}

fn plan() -> impl Strategy<Value = Plan> {
    let mode = prop_oneof![Just(0o644_u16), Just(0o755), Just(0o600)];
    let leaf = prop_oneof![
        6 => (mode.clone(), 0_i64..3, "[ab\n]{0,6}", prop::option::weighted(0.1, 0_u64..3))
            .prop_map(|(mode, seconds, text, link)| Plan::File { mode, seconds, text, link }),
        1 => "[ab/.]{1,4}".prop_map(Plan::Symlink),
        1 => mode.prop_map(Plan::Fifo),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        (0_i64..3, prop::collection::btree_map("[a-e]{1,2}", inner, 0..6))
            .prop_map(|(seconds, entries)| Plan::Directory { seconds, entries })
    })
}

fn root() -> impl Strategy<Value = Plan> {
    (0_i64..3, prop::collection::btree_map("[a-e]{1,2}", plan(), 0..6))
        .prop_map(|(seconds, entries)| Plan::Directory { seconds, entries })
}

fn build(session: &Session, plan: &Plan) -> TreeId {
    let Plan::Directory { seconds, entries } = plan else { panic!("the root is a directory") };
    let mut builder = Builder::new(meta(0o755, *seconds));
    let root = builder.root();
    fill(session, &mut builder, root, entries);
    builder.finish(session).unwrap()
}

fn fill(session: &Session, builder: &mut Builder, at: DirectoryIndex, entries: &BTreeMap<String, Plan>) {
    for (name, plan) in entries {
        let name = name.as_bytes();
        let node = match plan {
            Plan::Directory { seconds, entries } => {
                let index = builder.add_directory(at, name, meta(0o755, *seconds)).unwrap();
                fill(session, builder, index, entries);
                continue;
            }
            Plan::File { mode, seconds, text, link } => Node::File(File {
                meta: meta(*mode, *seconds),
                size: text.len() as u64,
                content: store_bytes(session, text.as_bytes()).unwrap(),
                link: link.map(LinkGroup),
            }),
            Plan::Symlink(target) => Node::Symlink { meta: meta(0o777, 0), target: target.as_bytes().into() },
            Plan::Fifo(mode) => Node::Fifo { meta: meta(*mode, 0) },
        };
        builder.add(at, name, node).unwrap();
    }
}

/// One store for all cases of a process: they do not commit.
static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

fn session() -> Session {
    PLACE.store.begin().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn equal_trees_have_equal_identities_and_others_do_not(a in root(), b in root()) {
        let session = session();
        prop_assert_eq!(build(&session, &a) == build(&session, &b), a == b);
    }

    #[test]
    fn a_diff_that_is_applied_gives_the_other_tree_and_undone_the_first(a in root(), b in root()) {
        let session = session();
        let (a, b) = (build(&session, &a), build(&session, &b));
        let deltas = compare(&session, a, b).unwrap();
        prop_assert_eq!(apply(&session, a, &deltas).unwrap(), b);
        prop_assert_eq!(apply(&session, b, &invert(deltas.clone())).unwrap(), a);
        prop_assert_eq!(deltas.is_empty(), a == b);
    }

    #[test]
    fn a_diff_in_the_other_direction_is_its_inverse(a in root(), b in root()) {
        let session = session();
        let (a, b) = (build(&session, &a), build(&session, &b));
        let (there, back) = (compare(&session, a, b).unwrap(), compare(&session, b, a).unwrap());
        prop_assert_eq!(invert(there), back);
    }

    #[test]
    fn the_report_names_exactly_the_paths_that_differ(a in root(), b in root()) {
        let session = session();
        let (a, b) = (build(&session, &a), build(&session, &b));
        let options = ChangeOptions { times: true, renames: false, ..ChangeOptions::default() };
        let reported: Vec<_> =
            changes(&session, a, b, &options).unwrap().list.into_iter().map(|change| change.path).collect();
        let (before, after) = (flat(&session, a), flat(&session, b));
        let expected: Vec<_> = before
            .keys()
            .chain(after.keys())
            .filter(|path| before.get(*path) != after.get(*path))
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        prop_assert_eq!(reported, expected);
    }

    #[test]
    fn renames_replace_a_deletion_and_a_creation(a in root(), b in root()) {
        let session = session();
        let (a, b) = (build(&session, &a), build(&session, &b));
        let list = |renames| {
            changes(&session, a, b, &ChangeOptions { renames, ..ChangeOptions::default() }).unwrap().list
        };
        let count = |list: &[agentiso_store::Change], kind| list.iter().filter(|change| change.kind == kind).count();
        let (with, without) = (list(true), list(false));
        prop_assert_eq!(count(&without, ChangeKind::Renamed), 0);
        prop_assert_eq!(count(&with, ChangeKind::Modified), count(&without, ChangeKind::Modified));
        // A renamed directory stands for everything in it, so fewer are reported, never more.
        prop_assert!(count(&with, ChangeKind::Created) <= count(&without, ChangeKind::Created));
        prop_assert!(count(&with, ChangeKind::Deleted) <= count(&without, ChangeKind::Deleted));
    }

    #[test]
    fn a_merge_of_one_sided_changes_is_that_side(base in root(), side in root()) {
        let session = session();
        let (base, side) = (build(&session, &base), build(&session, &side));
        for (ours, theirs) in [(base, side), (side, base), (side, side)] {
            let merged = merge(&session, Sides { base, ours, theirs }, &MergeOptions::default()).unwrap();
            prop_assert_eq!(merged.tree, side);
            prop_assert!(merged.conflicts.is_empty());
        }
    }

    #[test]
    fn a_merge_without_conflicts_does_not_depend_on_the_sides(base in root(), a in root(), b in root()) {
        let session = session();
        let (base, a, b) = (build(&session, &base), build(&session, &a), build(&session, &b));
        let one = merge(&session, Sides { base, ours: a, theirs: b }, &MergeOptions::default()).unwrap();
        let two = merge(&session, Sides { base, ours: b, theirs: a }, &MergeOptions::default()).unwrap();
        let paths = |merged: &agentiso_store::Merged| -> Vec<_> {
            merged.conflicts.iter().map(|conflict| (conflict.path.clone(), conflict.kind)).collect()
        };
        prop_assert_eq!(paths(&one), paths(&two));
        if one.conflicts.is_empty() {
            prop_assert_eq!(one.tree, two.tree);
        }
    }

    #[test]
    fn the_order_of_disjoint_merges_does_not_matter(
        base in root(),
        sides in prop::collection::vec((root(), 10_i64..20), 2..5),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let session = session();
        let base = build(&session, &base);
        // Each side changes a directory of its own, and the time of the root.
        let sides: Vec<TreeId> = sides
            .iter()
            .enumerate()
            .map(|(number, (plan, seconds))| {
                let mine = path(format!("side-{number}"));
                let node = Node::Directory(build(&session, plan));
                let root = Meta { mtime: Time { seconds: *seconds, nanos: 0 }, ..meta(0o755, 0) };
                let edits = BTreeMap::from([
                    (agentiso_store::TreePath::root(), Edit::SetMeta(root)),
                    (mine, Edit::Put(node)),
                ]);
                edit(&session, base, edits).unwrap()
            })
            .collect();
        let land = |order: &mut dyn Iterator<Item = &TreeId>| {
            order.fold(base, |ours, theirs| {
                let sides = Sides { base, ours, theirs: *theirs };
                let merged = merge(&session, sides, &MergeOptions::default()).unwrap();
                assert!(merged.conflicts.is_empty(), "{:?}", merged.conflicts);
                merged.tree
            })
        };
        let forwards = land(&mut sides.iter());
        let shuffled = land(&mut order.iter().filter_map(|index| sides.get(*index)));
        prop_assert_eq!(forwards, shuffled);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_survives_export_and_import(plan in root()) {
        let place = Place::new();
        let (tree, _lease) = place.committed(|session| build(session, &plan));
        materialise(&place.store, tree, &place.path("one"), &MaterialiseOptions::default()).unwrap();
        let (back, _lease) = place.import("one");
        prop_assert_eq!(back.report.notice_count, 0);
        let options = ChangeOptions { times: true, renames: false, ..ChangeOptions::default() };
        let found = changes(&place.store, tree, back.tree, &options).unwrap();
        // The files belong to the user of the test, and groups of links are numbered by their paths.
        let others: Vec<_> = found
            .list
            .iter()
            .filter(|change| {
                change.kind != ChangeKind::Modified
                    || !change.aspects.iter().all(|aspect| matches!(aspect, Aspect::Owner | Aspect::Links))
            })
            .collect();
        prop_assert!(others.is_empty(), "{:?}", others);
        materialise(&place.store, back.tree, &place.path("two"), &MaterialiseOptions::default()).unwrap();
        prop_assert_eq!(place.import("two").0.tree, back.tree);
    }

    #[test]
    fn a_tree_survives_an_archive(plan in root()) {
        let session = session();
        let tree = build(&session, &plan);
        let archive = write_tar(&session, tree, Vec::new()).unwrap();
        let back = read_tar(&session, &archive[..], TarLimits::default()).unwrap();
        let options = ChangeOptions { times: true, renames: false, ..ChangeOptions::default() };
        let found = changes(&session, tree, back.tree, &options).unwrap();
        prop_assert!(found.list.iter().all(|change| change.aspects == [Aspect::Links]), "{:?}", found.list);
    }
}

/// Every path with what it is; directories by their metadata.
fn flat(session: &Session, tree: TreeId) -> BTreeMap<agentiso_store::TreePath, String> {
    let mut found = BTreeMap::new();
    agentiso_store::walk(session, tree, |path, visit| {
        let text = match visit {
            agentiso_store::Visit::Directory { meta, .. } => format!("{meta:?}"),
            agentiso_store::Visit::Other(node) => format!("{node:?}"),
        };
        found.insert(path.clone(), text);
        Ok(())
    })
    .unwrap();
    found
}
