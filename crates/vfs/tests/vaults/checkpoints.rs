//! Checkpoints and restores.

use agentiso_core::Code;
use agentiso_vfs::{
    BeginUse, Checkpoint, CheckpointKind, Restore, Retention, SaveCheckpoint, StateRef, Vaults,
};

use crate::support::*;

fn save(vaults: &Vaults, name: &str) -> Checkpoint {
    let request = SaveCheckpoint { name: Some(name.to_owned()), ..SaveCheckpoint::default() };
    vaults.save_checkpoint("v", &request).unwrap()
}

fn to(name: &str) -> Restore {
    Restore { state: StateRef::Checkpoint(name.to_owned()), ..Restore::default() }
}

fn names(vaults: &Vaults, vault: &str) -> Vec<String> {
    vaults.checkpoints(vault).unwrap().into_iter().map(|found| found.name).collect()
}

#[test]
fn a_restore_returns_everything_and_can_be_undone() {
    let place = Place::with_vault();
    place.write("v", "kept", "1");
    place.write("v", "dir/changed", "before");
    let saved = save(&place.vaults, "c");
    assert_eq!((saved.totals.files, saved.totals.bytes, saved.revision), (2, 7, 2));
    place.write("v", "dir/changed", "after");
    place.write("v", "new", "x");
    place.remove("v", "kept");
    let changed = place.texts("v");
    let restored = place.vaults.restore("v", &to("c")).unwrap();
    assert_eq!((restored.files, restored.directories, restored.removed), (2, 0, 1));
    assert_eq!(place.texts("v"), map(&[("/dir/changed", "before"), ("/kept", "1")]));
    assert_eq!(place.vaults.info("v").unwrap().totals, saved.totals);
    let undo = restored.undo.unwrap();
    assert_eq!(undo.kind, CheckpointKind::Undo);
    place.vaults.restore("v", &to(&undo.name)).unwrap();
    assert_eq!(place.texts("v"), changed);
    place.vaults.undo("v", 2).unwrap();
    assert_eq!(place.texts("v"), changed);
    let again = place.vaults.restore("v", &Restore::default()).unwrap();
    assert!(!again.changed.is_changed && again.undo.is_none());
}

#[test]
fn a_restore_of_some_paths_leaves_the_others() {
    let place = Place::with_vault();
    place.write("v", "a/one", "1");
    place.write("v", "b/two", "2");
    save(&place.vaults, "c");
    place.write("v", "a/one", "x");
    place.write("v", "new", "x");
    place.remove("v", "b");
    let request = Restore { paths: vec![path("b/two"), path("new")], ..to("c") };
    place.vaults.restore("v", &request).unwrap();
    assert_eq!(place.texts("v"), map(&[("/a/one", "x"), ("/b/two", "2")]));
    let missing = Restore { paths: vec![path("none")], ..to("c") };
    assert_eq!(code(place.vaults.restore("v", &missing)), Code::FileNotFound);
}

#[test]
fn automatic_names_are_unique_within_a_second() {
    let place = Place::with_vault();
    let request = SaveCheckpoint { kind: CheckpointKind::Auto, ..SaveCheckpoint::default() };
    let saved: std::collections::BTreeSet<_> =
        (0..50).map(|_| place.vaults.save_checkpoint("v", &request).unwrap().name).collect();
    assert_eq!(saved.len(), 50);
    assert!(saved.iter().all(|name| name.starts_with("checkpoint-")));
    let user = place.vaults.save_checkpoint("v", &SaveCheckpoint::default()).unwrap();
    assert!(user.name.starts_with("snap-"), "{}", user.name);
}

#[test]
fn only_so_many_automatic_checkpoints_are_kept() {
    let place = Place::with_vault();
    let retention = Retention { auto_checkpoints: Some(3), undo_points: Some(1), ..Retention::default() };
    place.vaults.set_retention("v", retention).unwrap();
    assert_eq!(place.vaults.retention("v").unwrap(), retention);
    save(&place.vaults, "mine");
    for _ in 0..5 {
        let request = SaveCheckpoint { kind: CheckpointKind::Auto, ..SaveCheckpoint::default() };
        place.vaults.save_checkpoint("v", &request).unwrap();
    }
    let kinds: Vec<_> = place.vaults.checkpoints("v").unwrap().into_iter().map(|found| found.kind).collect();
    use CheckpointKind::{Auto, User};
    assert_eq!(kinds, [User, Auto, Auto, Auto]);
}

#[test]
fn checkpoints_have_names_of_their_own() {
    let place = Place::with_vault();
    let request = SaveCheckpoint {
        name: Some("c".to_owned()),
        description: Some("before".to_owned()),
        tags: vec!["x".to_owned()],
        ..SaveCheckpoint::default()
    };
    let saved = place.vaults.save_checkpoint("v", &request).unwrap();
    assert_eq!(place.vaults.checkpoint("v", "c").unwrap(), saved);
    assert_eq!(saved.tags, ["x"]);
    assert_eq!(code(place.vaults.save_checkpoint("v", &request)), Code::CheckpointExists);
    let bad = SaveCheckpoint { name: Some("r17".to_owned()), ..SaveCheckpoint::default() };
    assert_eq!(code(place.vaults.save_checkpoint("v", &bad)), Code::InvalidArgument);
    assert_eq!(code(place.vaults.restore("v", &to("d"))), Code::CheckpointNotFound);
    place.vaults.remove_checkpoint("v", "c").unwrap();
    assert_eq!(code(place.vaults.remove_checkpoint("v", "c")), Code::CheckpointNotFound);
}

#[test]
fn a_fork_sees_the_checkpoints_from_before_it_was_made() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    save(&place.vaults, "early");
    place.write("v", "f", "2");
    place.fork("v", "x");
    place.write("v", "f", "3");
    save(&place.vaults, "late");
    assert_eq!(names(&place.vaults, "x"), ["early"]);
    assert!(place.vaults.checkpoint("x", "early").unwrap().is_inherited);
    place.vaults.restore("x", &to("early")).unwrap();
    assert_eq!((place.read("x", "f").as_str(), place.read("v", "f").as_str()), ("1", "3"));
    assert_eq!(code(place.vaults.remove_checkpoint("x", "early")), Code::InvalidArgument);
    assert_eq!(code(place.vaults.checkpoint("x", "late")), Code::CheckpointNotFound);
    let own = SaveCheckpoint { name: Some("early".to_owned()), ..SaveCheckpoint::default() };
    place.vaults.save_checkpoint("x", &own).unwrap();
    assert!(!place.vaults.checkpoint("x", "early").unwrap().is_inherited);
}

#[test]
fn a_vault_with_a_run_is_restored_only_by_force() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    save(&place.vaults, "c");
    place.write("v", "f", "2");
    let run = place.vaults.begin_use("v", &BeginUse::default()).unwrap();
    assert_eq!(code(place.vaults.restore("v", &to("c"))), Code::VaultBusy);
    assert_eq!(place.read("v", "f"), "2");
    place.vaults.restore("v", &Restore { force: true, ..to("c") }).unwrap();
    place.vaults.end_use(run).unwrap();
    assert_eq!(place.read("v", "f"), "1");
}
