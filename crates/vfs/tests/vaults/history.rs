//! History of files and of the whole vault.

use agentiso_core::Code;
use agentiso_vfs::{FileOp, PruneKeep, PruneRequest, StateRef, VersionRef};

use crate::support::*;

/// Versions of a file, newest first: number and text.
fn versions(place: &Place, vault: &str, at: &str) -> Vec<(Option<u64>, String)> {
    let log = place.vaults.log(vault, &path(at), 100).unwrap();
    let text = |revision| {
        let found = place.vaults.read_version(vault, &path(at), VersionRef::Revision(revision), 1 << 20);
        found.map_or_else(|_| "-".to_owned(), |file| String::from_utf8(file.bytes).unwrap())
    };
    log.into_iter().map(|version| (version.version, text(version.revision))).collect()
}

fn list(expected: &[(Option<u64>, &str)]) -> Vec<(Option<u64>, String)> {
    expected.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
}

fn three_versions() -> Place {
    let place = Place::with_vault();
    for text in ["A", "B", "C"] {
        place.write("v", "f", text);
        place.write("v", "other", text);
    }
    place
}

#[test]
fn a_file_written_three_times_has_three_versions_and_reverts_to_the_second() {
    let place = three_versions();
    assert_eq!(versions(&place, "v", "f"), list(&[(Some(3), "C"), (Some(2), "B"), (Some(1), "A")]));
    let log = place.vaults.log("v", &path("f"), 1).unwrap();
    assert!(log[0].is_current);
    assert_eq!(log[0].stat.as_ref().unwrap().size, 1);
    let done = place.vaults.revert("v", &path("f")).unwrap();
    assert_eq!((done.from_version, done.to_version, done.new_version), (Some(3), 2, 4));
    assert_eq!(place.read("v", "f"), "B");
    let done = place.vaults.checkout("v", &path("f"), VersionRef::Number(1)).unwrap();
    assert_eq!((done.to_version, done.new_version), (1, 5));
    assert_eq!(place.texts("v"), map(&[("/f", "A"), ("/other", "C")]));
}

#[test]
fn writing_the_same_again_or_changing_the_mode_is_no_version() {
    let place = three_versions();
    place.write("v", "f", "C");
    place.vaults.change("v", &[FileOp::SetMode { path: path("f"), mode: 0o600 }]).unwrap();
    assert_eq!(versions(&place, "v", "f").len(), 3);
}

#[test]
fn each_version_has_its_own_size() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    place.write("v", "f", "4444");
    let sizes: Vec<_> = place
        .vaults
        .log("v", &path("f"), 9)
        .unwrap()
        .into_iter()
        .map(|version| version.stat.unwrap().size)
        .collect();
    assert_eq!(sizes, [4, 1]);
}

#[test]
fn a_deleted_file_comes_back() {
    let place = three_versions();
    place.remove("v", "f");
    assert_eq!(versions(&place, "v", "f")[0], (None, "-".to_owned()));
    let done = place.vaults.revert("v", &path("f")).unwrap();
    assert_eq!((done.from_version, done.to_version, done.new_version), (None, 3, 4));
    assert_eq!(place.read("v", "f"), "C");
}

#[test]
fn a_file_of_a_deleted_directory_comes_back_with_its_directory() {
    let place = Place::with_vault();
    place.write("v", "a/b/f", "1");
    place.write("v", "a/b/f", "2");
    place.remove("v", "a");
    assert_eq!(versions(&place, "v", "a/b/f"), list(&[(None, "-"), (Some(2), "2"), (Some(1), "1")]));
    place.vaults.checkout("v", &path("a/b/f"), VersionRef::Number(1)).unwrap();
    assert_eq!(place.texts("v"), map(&[("/a/b/f", "1")]));
}

#[test]
fn files_of_an_imported_directory_begin_with_version_one() {
    let place = Place::with_vault();
    std::fs::create_dir_all(place.path("in/sub")).unwrap();
    std::fs::write(place.path("in/sub/f"), "host").unwrap();
    place.vaults.import("v", &place.path("in"), &path("d"), &Default::default()).unwrap();
    place.write("v", "d/sub/f", "mine");
    place.write("v", "d/other", "x");
    assert_eq!(versions(&place, "v", "d/sub/f"), list(&[(Some(2), "mine"), (Some(1), "host")]));
}

#[test]
fn a_path_without_history_is_an_error() {
    let place = three_versions();
    place.write("v", "dir/x", "");
    assert_eq!(code(place.vaults.log("v", &path("none"), 9)), Code::FileNotFound);
    assert_eq!(code(place.vaults.log("v", &path("f/none"), 9)), Code::FileNotFound);
    assert_eq!(code(place.vaults.checkout("v", &path("f"), VersionRef::Number(9))), Code::VersionNotFound);
    place.write("v", "once", "1");
    assert_eq!(code(place.vaults.revert("v", &path("once"))), Code::VersionNotFound);
}

#[test]
fn a_fork_continues_the_history_of_its_parent() {
    let place = three_versions();
    place.fork("v", "f1");
    place.write("v", "f", "parent later");
    place.write("f1", "f", "fork");
    place.fork("f1", "f2");
    assert_eq!(
        versions(&place, "f2", "f"),
        list(&[(Some(4), "fork"), (Some(3), "C"), (Some(2), "B"), (Some(1), "A")])
    );
    place.vaults.remove("v", Default::default()).unwrap();
    place.vaults.remove("f1", Default::default()).unwrap();
    assert_eq!(versions(&place, "f2", "f").len(), 4);
    place.vaults.revert("f2", &path("f")).unwrap();
    assert_eq!(place.read("f2", "f"), "C");
}

#[test]
fn undo_takes_back_one_change_after_the_other_and_redo_returns() {
    let place = Place::with_vault();
    for text in ["1", "2", "3"] {
        place.write("v", "f", text);
    }
    let undone = place.vaults.undo("v", 1).unwrap();
    assert_eq!((undone.target, place.read("v", "f").as_str()), (3, "2"));
    place.vaults.undo("v", 1).unwrap();
    assert_eq!(place.read("v", "f"), "1");
    place.vaults.redo("v").unwrap();
    assert_eq!(place.read("v", "f"), "2");
    place.vaults.redo("v").unwrap();
    assert_eq!(place.read("v", "f"), "3");
    assert_eq!(code(place.vaults.redo("v")), Code::VersionNotFound);
    place.vaults.undo("v", 3).unwrap();
    assert!(place.texts("v").is_empty());
    assert_eq!(code(place.vaults.undo("v", 1)), Code::VersionNotFound);
    place.vaults.redo("v").unwrap();
    assert_eq!(place.read("v", "f"), "3");
    place.vaults.undo("v", 2).unwrap();
    place.write("v", "f", "new");
    assert_eq!(code(place.vaults.redo("v")), Code::VersionNotFound);
    place.vaults.undo("v", 1).unwrap();
    assert_eq!(place.read("v", "f"), "1");
}

#[test]
fn undo_of_a_fork_does_not_reach_into_its_parent() {
    let place = three_versions();
    place.fork("v", "x");
    assert_eq!(code(place.vaults.undo("x", 1)), Code::VersionNotFound);
    place.write("x", "f", "D");
    place.vaults.undo("x", 1).unwrap();
    assert_eq!(place.texts("x"), place.texts("v"));
}

#[test]
fn the_journal_names_every_change() {
    let place = three_versions();
    place.vaults.undo("v", 1).unwrap();
    let revisions = place.vaults.revisions("v", 2, None).unwrap();
    let words: Vec<_> =
        revisions.iter().map(|one| (one.revision, one.operation.as_str(), one.target)).collect();
    assert_eq!(words, [(7, "undo", Some(6)), (6, "change", None)]);
    assert_eq!(revisions[0].after, revisions[1].before);
    assert_eq!(revisions[0].actor, "test");
    assert_eq!(place.vaults.revisions("v", 9, Some(3)).unwrap().len(), 2);
}

fn prune(keep: PruneKeep, at: Option<&str>, dry_run: bool) -> PruneRequest {
    PruneRequest { keep, path: at.map(path), dry_run }
}

#[test]
fn pruning_forgets_old_changes_and_keeps_the_numbers() {
    let place = three_versions();
    let would = place.vaults.prune("v", &prune(PruneKeep::Newest(2), None, true)).unwrap();
    assert_eq!((would.revisions, would.versions), (4, 4));
    assert_eq!(versions(&place, "v", "f").len(), 3);
    assert_eq!(place.vaults.prune("v", &prune(PruneKeep::Newest(2), None, false)).unwrap(), would);
    assert_eq!(versions(&place, "v", "f"), list(&[(Some(3), "C"), (Some(2), "B")]));
    assert_eq!(code(place.vaults.view("v", &StateRef::Revision(1))), Code::VersionNotFound);
    assert_eq!(code(place.vaults.checkout("v", &path("f"), VersionRef::Number(1))), Code::VersionNotFound);
    place.vaults.prune("v", &prune(PruneKeep::Newest(0), None, false)).unwrap();
    assert_eq!(versions(&place, "v", "f"), list(&[(Some(3), "C")]));
    place.write("v", "f", "D");
    assert_eq!(versions(&place, "v", "f"), list(&[(Some(4), "D"), (Some(3), "C")]));
    assert_eq!(place.vaults.prune("v", &prune(PruneKeep::Days(1), None, false)).unwrap().revisions, 0);
}

#[test]
fn pruning_one_file_leaves_the_others() {
    let place = three_versions();
    place.write("v", "dir/g", "1");
    place.write("v", "dir/g", "2");
    let pruned = place.vaults.prune("v", &prune(PruneKeep::Newest(1), Some("f"), false)).unwrap();
    assert_eq!((pruned.versions, pruned.files, pruned.revisions), (2, 1, 0));
    assert_eq!(versions(&place, "v", "f"), list(&[(Some(3), "C")]));
    assert_eq!(versions(&place, "v", "other").len(), 3);
    place.vaults.prune("v", &prune(PruneKeep::Newest(1), Some("dir"), false)).unwrap();
    assert_eq!(versions(&place, "v", "dir/g"), list(&[(Some(2), "2")]));
    assert_eq!(code(place.vaults.revert("v", &path("f"))), Code::VersionNotFound);
}

#[test]
fn a_fork_survives_the_pruning_of_its_parent() {
    let place = three_versions();
    place.fork("v", "x");
    place.vaults.prune("v", &prune(PruneKeep::Newest(0), None, false)).unwrap();
    place.write("x", "f", "D");
    assert_eq!(versions(&place, "x", "f").into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["D", "C"]);
    assert!(place.vaults.view("x", &StateRef::Revision(6)).is_ok());
}
