//! Runs on a vault, one at a time and several at once.

use agentiso_core::Code;
use agentiso_store::{Edit, File, Meta, Node, edit, store_bytes};
use agentiso_vfs::{
    BeginUse, CheckpointKind, ConflictKind, FileOp, Lease, Note, Quotas, Root, SaveCheckpoint, StateRef,
    TreeId, Use, UseReport, VfsError,
};

use crate::support::*;

impl Place {
    fn begin(&self) -> Use {
        self.vaults.begin_use("v", &BeginUse::default()).unwrap()
    }

    /// What a run leaves: its base with these files; nothing for files that it removes.
    fn left(&self, base: TreeId, files: &[(&str, Option<&str>)]) -> (TreeId, Lease) {
        let session = self.vaults.store().begin().unwrap();
        let node = |text: &str| {
            let content = store_bytes(&session, text.as_bytes()).unwrap();
            let meta = Meta { mode: 0o644, ..Meta::default() };
            Node::File(File { meta, size: text.len() as u64, content, link: None })
        };
        let edits = files
            .iter()
            .map(|(at, text)| (path(at), text.map_or(Edit::Remove, |text| Edit::Put(node(text)))));
        let tree = edit(&session, base, edits.collect()).unwrap();
        let lease = session.commit(&[Root::Tree(tree)]).unwrap();
        (tree, lease)
    }

    fn finish(&self, run: Use, files: &[(&str, Option<&str>)]) -> Result<UseReport, VfsError> {
        let (tree, lease) = self.left(run.base(), files);
        self.vaults.finish(run, tree, lease, &Note::new("proxy_exec"))
    }
}

#[test]
fn what_a_run_left_is_the_vault() {
    let place = Place::with_vault();
    place.write("v", "a", "1");
    let run = place.begin();
    assert_eq!(place.vaults.info("v").unwrap().uses, 1);
    let report = place.finish(run, &[("a", None), ("b", Some("2"))]).unwrap();
    assert!(!report.is_merged && report.conflicts.is_empty() && report.saved.is_none());
    assert_eq!(place.texts("v"), map(&[("/b", "2")]));
    let info = place.vaults.info("v").unwrap();
    assert_eq!((info.uses, info.totals.files, info.totals.bytes), (0, 1, 1));
}

#[test]
fn runs_at_the_same_time_are_merged() {
    let place = Place::with_vault();
    place.write("v", "text", "1\n2\n3\n4\n");
    let (one, two) = (place.begin(), place.begin());
    place.write("v", "direct", "x");
    place.finish(one, &[("text", Some("one\n2\n3\n4\n")), ("from-one", Some("1"))]).unwrap();
    let report = place.finish(two, &[("text", Some("1\n2\n3\nfour\n")), ("from-two", Some("2"))]).unwrap();
    assert!(report.is_merged && report.conflicts.is_empty());
    let expected =
        map(&[("/direct", "x"), ("/from-one", "1"), ("/from-two", "2"), ("/text", "one\n2\n3\nfour\n")]);
    assert_eq!(place.texts("v"), expected);
}

#[test]
fn of_a_conflict_both_sides_are_kept() {
    let place = Place::with_vault();
    place.write("v", "f", "base\n");
    let (one, two) = (place.begin(), place.begin());
    place.finish(one, &[("f", Some("one\n"))]).unwrap();
    let report = place.finish(two, &[("f", Some("two\n")), ("g", Some("g"))]).unwrap();
    let kinds: Vec<_> = report.conflicts.iter().map(|one| (one.kind, one.has_markers)).collect();
    assert_eq!(kinds, [(ConflictKind::BothModified, false)]);
    assert_eq!(place.texts("v"), map(&[("/f", "one\n"), ("/g", "g")]));
    let saved = report.saved.unwrap();
    assert_eq!(saved.kind, CheckpointKind::Conflict);
    let lost = place.texts_of("v", &StateRef::Checkpoint(saved.name));
    assert_eq!(lost, map(&[("/f", "two\n"), ("/g", "g")]));
}

#[test]
fn a_change_wins_over_a_deletion() {
    let place = Place::with_vault();
    place.write("v", "f", "base\n");
    let run = place.begin();
    place.remove("v", "f");
    let report = place.finish(run, &[("f", Some("run\n"))]).unwrap();
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(place.read("v", "f"), "run\n");
}

#[test]
fn a_run_may_commit_several_times() {
    let place = Place::with_vault();
    let mut run = place.begin();
    let (tree, lease) = place.left(run.base(), &[("a", Some("1"))]);
    place.vaults.commit_use(&mut run, tree, lease, &Note::new("step")).unwrap();
    assert_eq!(run.base(), tree);
    place.write("v", "other", "x");
    let report = place.finish(run, &[("a", Some("2"))]).unwrap();
    assert_eq!(report.changes_from, tree);
    assert_eq!(place.texts("v"), map(&[("/a", "2"), ("/other", "x")]));
}

#[test]
fn a_run_that_changed_nothing_leaves_no_change() {
    let place = Place::with_vault();
    let run = place.begin();
    place.write("v", "x", "1");
    let report = place.finish(run, &[]).unwrap();
    assert!(!report.changed.is_changed);
    assert_eq!(place.vaults.info("v").unwrap().revision, 1);
}

#[test]
fn tags_follow_what_a_run_renames() {
    let place = Place::with_vault();
    place.write("v", "old", "content");
    place.vaults.change("v", &[FileOp::AddTag { path: path("old"), tag: "t".to_owned() }]).unwrap();
    let run = place.begin();
    place.finish(run, &[("old", None), ("new", Some("content"))]).unwrap();
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    assert_eq!(view.tags(&path("new")).len(), 1);
    assert!(view.tags(&path("old")).is_empty());
}

#[test]
fn a_quota_refuses_what_a_run_left_and_it_can_be_saved() {
    let place = Place::with_vault();
    place.vaults.set_quotas("v", Quotas { max_files: Some(1), ..Quotas::default() }).unwrap();
    let mut run = place.begin();
    let (tree, lease) = place.left(run.base(), &[("a", Some("1")), ("b", Some("2"))]);
    let refused = place.vaults.commit_use(&mut run, tree, lease, &Note::new("proxy_exec"));
    assert_eq!(code(refused), Code::QuotaExceeded);
    assert_eq!(place.vaults.uses(Some("v")).unwrap().len(), 1);
    let lease = place.vaults.store().hold(Root::Tree(tree)).unwrap();
    let request = SaveCheckpoint { kind: CheckpointKind::Conflict, ..SaveCheckpoint::default() };
    let saved = place.vaults.save_tree("v", tree, lease, &request).unwrap();
    assert_eq!((saved.totals.files, place.texts("v").len()), (2, 0));
    place.vaults.end_use(run).unwrap();
}

#[test]
fn a_run_of_this_process_is_alive_and_keeps_the_vault() {
    let place = Place::with_vault();
    let run = place.begin();
    let record = place.vaults.uses(None).unwrap().remove(0);
    assert!(record.is_alive && record.id == run.id() && record.pid == std::process::id());
    assert_eq!(code(place.vaults.remove("v", Default::default())), Code::VaultBusy);
    place.vaults.end_use(run).unwrap();
    place.vaults.remove("v", Default::default()).unwrap();
}

#[test]
fn the_run_of_a_dead_process_is_adopted_or_forgotten() {
    let place = Place::with_vault();
    let run = place.begin();
    let id = run.id();
    // The row of a process that does not exist.
    let connection = rusqlite::Connection::open(place.path("home/vaults.db")).unwrap();
    connection.execute("UPDATE uses SET started = started + 1", []).unwrap();
    assert!(!place.vaults.uses(None).unwrap()[0].is_alive);
    let adopted = place.vaults.adopt_use(id).unwrap();
    place.finish(adopted, &[("saved", Some("1"))]).unwrap();
    assert_eq!(place.read("v", "saved"), "1");
    assert!(!place.vaults.forget_use(id).unwrap());
    let ended = place.finish(run, &[("late", Some("1"))]);
    assert_eq!(code(ended), Code::InvalidArgument);
    assert_eq!(place.texts("v").len(), 1);
}
