//! Differences and merges between vaults.

use agentiso_core::Code;
use agentiso_store::ChangeKind;
use agentiso_vfs::{ChangeOptions, ConflictKind, Endpoint, FileOp, MergeVaults, OnConflict, StateRef};

use crate::support::*;

/// "v" with three files, and its fork "x".
fn forked() -> Place {
    let place = Place::with_vault();
    for (at, text) in [("a", "1\n2\n3\n4\n"), ("b", "b\n"), ("dir/c", "c\n")] {
        place.write("v", at, text);
    }
    place.fork("v", "x");
    place
}

fn conflicting() -> Place {
    let place = forked();
    place.write("v", "b", "ours\n");
    place.write("x", "b", "theirs\n");
    place.write("x", "new", "new\n");
    place
}

fn with(on_conflict: OnConflict) -> MergeVaults {
    MergeVaults { on_conflict, ..MergeVaults::new("x", "v") }
}

#[test]
fn changes_of_both_sides_are_merged_line_by_line() {
    let place = forked();
    place.write("v", "a", "one\n2\n3\n4\n");
    place.write("x", "a", "1\n2\n3\nfour\n");
    place.write("x", "dir/new", "new\n");
    place.remove("x", "b");
    let report = place.vaults.merge(&MergeVaults::new("x", "v")).unwrap();
    assert_eq!((report.conflicts.len(), report.changes.total), (0, 3));
    assert!(report.applied.unwrap().is_changed);
    let merged = map(&[("/a", "one\n2\n3\nfour\n"), ("/dir/c", "c\n"), ("/dir/new", "new\n")]);
    assert_eq!(place.texts("v"), merged);
    let info = place.vaults.info("v").unwrap();
    assert_eq!((info.totals.files, info.totals.bytes), (3, 19));
}

#[test]
fn a_conflict_stops_the_merge_and_is_reported() {
    let place = conflicting();
    let before = place.vaults.info("v").unwrap();
    let report = place.vaults.merge(&with(OnConflict::Stop)).unwrap();
    assert!(report.applied.is_none());
    let found: Vec<_> = report.conflicts.iter().map(|one| (one.path.to_string(), one.kind)).collect();
    assert_eq!(found, [("/b".to_owned(), ConflictKind::BothModified)]);
    assert_eq!(place.vaults.info("v").unwrap(), before);
}

#[test]
fn conflicts_are_decided_as_requested() {
    for (on_conflict, b) in [
        (OnConflict::Ours, "ours\n"),
        (OnConflict::Theirs, "theirs\n"),
        (OnConflict::Markers, "<<<<<<< v\nours\n=======\ntheirs\n>>>>>>> x\n"),
    ] {
        let place = conflicting();
        let report = place.vaults.merge(&with(on_conflict)).unwrap();
        assert_eq!(report.conflicts.len(), 1);
        assert_eq!((place.read("v", "b").as_str(), place.read("v", "new").as_str()), (b, "new\n"));
    }
}

#[test]
fn a_deletion_against_a_change_is_decided_too() {
    for (on_conflict, expected) in [(OnConflict::Ours, None), (OnConflict::Theirs, Some("theirs\n"))] {
        let place = forked();
        place.remove("v", "b");
        place.write("x", "b", "theirs\n");
        place.vaults.merge(&with(on_conflict)).unwrap();
        assert_eq!(place.texts("v").get("/b").map(String::as_str), expected);
    }
}

#[test]
fn a_mode_that_only_one_side_changed_survives_a_decision_about_the_text() {
    let place = conflicting();
    place.vaults.change("v", &[FileOp::SetMode { path: path("b"), mode: 0o755 }]).unwrap();
    place.vaults.merge(&with(OnConflict::Theirs)).unwrap();
    let stat = place.vaults.view("v", &StateRef::Now).unwrap().stat(&path("b"), false).unwrap();
    assert_eq!((stat.mode, place.read("v", "b").as_str()), (0o755, "theirs\n"));
}

#[test]
fn the_next_merge_begins_where_the_last_one_ended() {
    let place = conflicting();
    place.vaults.merge(&with(OnConflict::Ours)).unwrap();
    place.write("x", "later", "1");
    let report = place.vaults.merge(&with(OnConflict::Stop)).unwrap();
    assert_eq!((report.conflicts.len(), report.changes.total), (0, 1));
    // And in the other direction: the fork gets what its parent has.
    let back = place.vaults.merge(&MergeVaults::new("v", "x")).unwrap();
    assert!(back.conflicts.is_empty());
    assert_eq!(place.texts("x"), place.texts("v"));
}

#[test]
fn a_merge_that_was_undone_can_be_repeated() {
    let place = conflicting();
    let first = place.vaults.merge(&with(OnConflict::Theirs)).unwrap();
    place.vaults.undo("v", 1).unwrap();
    assert_eq!(place.read("v", "b"), "ours\n");
    place.write("v", "between", "x");
    let second = place.vaults.merge(&with(OnConflict::Theirs)).unwrap();
    assert_eq!(second.base, first.base);
    assert_eq!((place.read("v", "b").as_str(), place.read("v", "new").as_str()), ("theirs\n", "new\n"));
}

#[test]
fn siblings_are_merged_from_what_they_have_in_common() {
    let place = forked();
    place.write("v", "later", "1");
    place.fork("v", "y");
    place.write("x", "from-x", "x");
    place.write("y", "from-y", "y");
    let report = place.vaults.merge(&MergeVaults::new("x", "y")).unwrap();
    assert_eq!(report.base, place.vaults.info("x").unwrap().parent.unwrap().tree);
    let texts = place.texts("y");
    assert!(["/later", "/from-x", "/from-y"].iter().all(|at| texts.contains_key(*at)), "{texts:?}");
}

#[test]
fn unrelated_vaults_need_a_base() {
    let place = forked();
    place.create("other");
    assert_eq!(code(place.vaults.merge(&MergeVaults::new("other", "v"))), Code::InvalidArgument);
    assert_eq!(code(place.vaults.merge(&MergeVaults::new("v", "v"))), Code::InvalidArgument);
    place.write("other", "o", "o");
    let request = MergeVaults {
        base: Some(Endpoint::state("other", StateRef::Revision(0))),
        ..MergeVaults::new("other", "v")
    };
    place.vaults.merge(&request).unwrap();
    assert_eq!(place.read("v", "o"), "o");
}

#[test]
fn a_dry_run_and_a_scope_limit_a_merge() {
    let place = forked();
    place.write("x", "b", "theirs\n");
    place.write("x", "dir/c", "theirs\n");
    let dry = MergeVaults { dry_run: true, ..MergeVaults::new("x", "v") };
    let report = place.vaults.merge(&dry).unwrap();
    assert!(report.applied.is_none() && report.changes.total == 2);
    assert_eq!(place.read("v", "b"), "b\n");
    place.vaults.merge(&MergeVaults { scope: path("dir"), ..MergeVaults::new("x", "v") }).unwrap();
    assert_eq!((place.read("v", "b").as_str(), place.read("v", "dir/c").as_str()), ("b\n", "theirs\n"));
    place.vaults.merge(&MergeVaults::new("x", "v")).unwrap();
    assert_eq!(place.read("v", "b"), "theirs\n", "a merge of a part does not hide the rest");
}

#[test]
fn a_promoted_fork_is_in_its_parent_and_gone() {
    let place = conflicting();
    let stopped = place.vaults.promote("x", OnConflict::Stop, true).unwrap();
    assert!(stopped.applied.is_none());
    place.vaults.info("x").unwrap();
    place.vaults.promote("x", OnConflict::Theirs, true).unwrap();
    assert_eq!(place.read("v", "new"), "new\n");
    assert_eq!(code(place.vaults.info("x")), Code::VaultNotFound);
    assert_eq!(code(place.vaults.promote("v", OnConflict::Stop, false)), Code::InvalidArgument);
}

#[test]
fn tags_are_merged() {
    let place = forked();
    let tag = |vault: &str, tag: &str| {
        place.vaults.change(vault, &[FileOp::AddTag { path: path("b"), tag: tag.to_owned() }]).unwrap();
    };
    tag("v", "ours");
    tag("x", "theirs");
    place.vaults.merge(&MergeVaults::new("x", "v")).unwrap();
    let tags = place.vaults.view("v", &StateRef::Now).unwrap().tags(&path("b"));
    assert_eq!(tags.into_iter().collect::<Vec<_>>(), ["ours", "theirs"]);
}

#[test]
fn any_two_states_and_host_directories_are_compared() {
    let place = forked();
    place.write("x", "b", "changed\n");
    let rename = FileOp::Move { from: path("a"), to: path("renamed"), replace: false };
    place.vaults.change("x", &[rename]).unwrap();
    let kinds = |before: &Endpoint, after: &Endpoint| -> Vec<(ChangeKind, String)> {
        let found = place.vaults.diff(before, after, &ChangeOptions::default()).unwrap();
        found.list.into_iter().map(|change| (change.kind, change.path.to_string())).collect()
    };
    let expected =
        vec![(ChangeKind::Modified, "/b".to_owned()), (ChangeKind::Renamed, "/renamed".to_owned())];
    assert_eq!(kinds(&Endpoint::now("v"), &Endpoint::now("x")), expected);
    let early = Endpoint::state("x", StateRef::Revision(3));
    assert_eq!(kinds(&early, &Endpoint::now("x")), expected);
    let out = place.path("out");
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    place.vaults.export(&view, &path(""), &out, &Default::default()).unwrap();
    let host = Endpoint::Host(out.clone());
    assert_eq!(kinds(&Endpoint::now("v"), &host), []);
    std::fs::write(out.join("b"), "host\n").unwrap();
    assert_eq!(kinds(&Endpoint::now("v"), &host), [(ChangeKind::Modified, "/b".to_owned())]);
    let diff = place.vaults.diff_files((&early, &path("b")), (&host, &path("b")), 3).unwrap();
    assert_eq!(diff.hunks.len(), 1);
    let added = place
        .vaults
        .diff_files((&early, &path("renamed")), (&Endpoint::now("x"), &path("renamed")), 3)
        .unwrap();
    assert_eq!(added.hunks[0].lines.len(), 4);
    let none = place.vaults.diff_files((&early, &path("none")), (&host, &path("none")), 3);
    assert_eq!(code(none), Code::FileNotFound);
}
