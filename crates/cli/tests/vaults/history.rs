//! Versions, differences, undo and merge.

use serde_json::Value;

use crate::place::Place;

#[test]
fn every_version_of_a_file_is_kept() {
    let place = Place::with_vault();
    for text in ["A", "B", "C"] {
        place.write("/f", text);
    }
    let log = place.work("log", &["log", "/f"]);
    let versions: Vec<u64> =
        log.as_array().unwrap().iter().map(|one| one["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, [3, 2, 1]);
    assert_eq!(log[0]["current"], true);
    assert_eq!(place.work("cat", &["cat", "-v", "1", "/f"])["content"], "A");
    // After A, B and C, going back gives B.
    place.work("revert", &["revert", "/f"]);
    assert_eq!(place.cat("/f"), "B");
    place.work("checkout", &["checkout", "/f", "-v", "1"]);
    assert_eq!(place.cat("/f"), "A");
    place.work("rm", &["rm", "/f"]);
    place.work("revert", &["revert", "/f"]);
    assert_eq!(place.cat("/f"), "A");
    place.fails("version_not_found", &["--vault", "work", "cat", "-v", "99", "/f"]);
}

#[test]
fn files_are_compared_line_by_line() {
    let place = Place::with_vault();
    place.write("/f", "a\nb\nc\n");
    place.write("/f", "a\nx\nb\nc\n");
    let diff = place.work("diff", &["diff", "/f"]);
    let lines: Vec<_> =
        diff["diff"].as_array().unwrap().iter().map(|line| line["line_type"].as_str().unwrap()).collect();
    // One line was added; those below it did not change.
    assert_eq!(lines, ["context", "add", "context", "context"]);
    assert_eq!(diff["version1"], "1");
    let text = place.avfs(&["--vault", "work", "diff", "/f", "--v1", "1", "--v2", "2"]).stdout;
    assert!(text.contains("+x") && text.contains("@@ -1,3 +1,4 @@"), "{text}");
    place.write("/g", "a\nb\nc\n");
    assert_eq!(place.work("diff", &["diff", "/g", "/f", "--v2", "1"])["identical"], true);
}

#[test]
fn any_two_states_are_compared() {
    let place = Place::with_vault();
    place.write("/same", "x");
    place.write("/changed", "1");
    place.work("checkpoint", &["checkpoint", "save", "before"]);
    place.json("vault_fork", &["vault", "fork", "work", "task"]);
    place.json("write", &["--vault", "task", "write", "/changed", "2"]);
    let paths = |words: &[&str]| {
        let diff = place.work("diff_tree", &[&["diff"], words].concat());
        let changes = diff["changes"].as_array().unwrap().clone();
        changes.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&["--from", "before"]), Vec::<String>::new());
    assert_eq!(paths(&["--from", "before", "--to", "task"]), ["/changed"]);
    assert_eq!(paths(&["--from", "work@before", "--to", "task@now"]), ["/changed"]);
    std::fs::write(place.cwd.path().join("same"), "x").unwrap();
    let host = format!("host:{}", place.cwd.path().display());
    assert!(paths(&["--from", "task", "--to", &host]).contains(&"/changed".to_owned()));
    let lines = place.work("diff", &["diff", "--from", "work", "--to", "task", "/changed"]);
    assert_eq!(lines["identical"], false);
}

#[test]
fn changes_are_undone_and_repeated() {
    let place = Place::with_vault();
    place.write("/f", "1");
    place.write("/f", "2");
    place.work("undo", &["undo"]);
    assert_eq!(place.cat("/f"), "1");
    place.work("undo", &["redo"]);
    assert_eq!(place.cat("/f"), "2");
    let log = place.work("log", &["log"]);
    assert!(log.as_array().unwrap().len() >= 4, "{log}");
}

#[test]
fn a_fork_is_merged_and_conflicts_change_nothing_unless_they_are_decided() {
    let place = Place::with_vault();
    place.write("/f", "base\n");
    place.json("vault_fork", &["vault", "fork", "work", "task"]);
    place.json("write", &["--vault", "task", "write", "/new", "x"]);
    let merged = place.work("merge", &["merge", "task", "--dry-run"]);
    assert_eq!((merged["applied"].as_bool(), merged["total"].as_u64()), (Some(false), Some(1)));
    assert_eq!(place.work("merge", &["merge", "task"])["applied"], true);
    assert_eq!(place.cat("/new"), "x");
    place.json("write", &["--vault", "task", "write", "/f", "theirs\n"]);
    place.write("/f", "ours\n");
    let done = place.avfs(&["--json", "--vault", "work", "merge", "task"]);
    let stopped = done.value("merge");
    assert_eq!((done.code, stopped["applied"].as_bool()), (1, Some(false)));
    assert_eq!(stopped["conflicts"][0]["path"], "/f");
    assert_eq!(place.cat("/f"), "ours\n");
    place.work("merge", &["merge", "task", "--on-conflict", "theirs", "--remove"]);
    assert_eq!(place.cat("/f"), "theirs\n");
    place.fails("vault_not_found", &["vault", "info", "task"]);
}

#[test]
fn a_directory_that_was_not_imported_has_no_history() {
    let place = Place::with_vault();
    place.fails("file_not_found", &["--vault", "work", "log", "/none"]);
    assert_eq!(place.fails("invalid_argument", &["--vault", "work", "diff"]), "there is nothing to compare");
    let log = place.work("log", &["log"]);
    assert!(matches!(log, Value::Array(_)));
}
