//! Vaults and checkpoints.

use std::fs;

use serde_json::Value;

use crate::place::Place;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn a_vault_is_created_listed_renamed_and_removed() {
    let place = Place::new();
    let created = place.json("vault_create", &["vault", "create", "work", "-d", "a project"]);
    assert_eq!((created["created"].as_str(), created["current"].as_bool()), (Some("work"), Some(false)));
    place.fails("vault_exists", &["vault", "create", "work"]);
    assert_eq!(names(&place.json("vault_list", &["vault", "list"])), ["work"]);
    let info = place.json("vault_info", &["vault", "info", "work"]);
    assert_eq!(info["description"], "a project");
    assert_eq!(info["id"], created["id"]);
    let renamed = place.json("vault_rename", &["vault", "rename", "work", "done"]);
    assert_eq!((renamed["old_name"].as_str(), renamed["name"].as_str()), (Some("work"), Some("done")));
    place.fails("vault_not_found", &["vault", "info", "work"]);
    assert_eq!(place.json("vault_delete", &["vault", "delete", "done"])["deleted"], "done");
    assert_eq!(place.json("vault_list", &["vault", "ls"]), Value::Array(Vec::new()));
}

#[test]
fn names_that_are_no_names_are_refused() {
    let place = Place::new();
    for name in ["", "a/b", "../x", "a b", "-x", &"x".repeat(65), "a\nb"] {
        let done = place.avfs(&["--json", "vault", "create", "--", name]);
        assert_ne!(done.code, 0, "{name:?}");
        assert_eq!(done.value("error")["error"]["code"], "invalid_argument", "{name:?}");
    }
    assert_eq!(place.json("vault_list", &["vault", "ls"]), Value::Array(Vec::new()));
}

#[test]
fn a_fork_has_its_own_files_and_knows_where_it_comes_from() {
    let place = Place::with_vault();
    place.write("/a.txt", "one");
    let fork = place.json("vault_fork", &["vault", "fork", "work", "task-1"]);
    assert_eq!((fork["source"].as_str(), fork["copy_on_write"].as_bool()), (Some("work"), Some(true)));
    place.json("write", &["--vault", "task-1", "write", "/a.txt", "two"]);
    assert_eq!(place.cat("/a.txt"), "one");
    let info = place.json("vault_info", &["vault", "info", "task-1"]);
    assert_eq!(info["ancestors"][0]["name"], "work");
    let info = place.json("vault_info", &["vault", "info", "work"]);
    assert_eq!(info["forks"][0]["name"], "task-1");
}

#[test]
fn many_forks_are_made_at_once_and_end_by_themselves() {
    let place = Place::with_vault();
    let forks = place.json("vault_fork", &["vault", "fork", "work", "--count", "50", "--ttl", "2h"]);
    assert_eq!(forks["forks"].as_array().unwrap().len(), 50);
    assert!(forks["expires_at"].is_string());
    place.fails("invalid_argument", &["vault", "fork", "work", "--count", "0"]);
    place.fails("invalid_argument", &["vault", "fork", "work", "x", "--ttl", "soon"]);
    assert_eq!(place.json("vault_list", &["vault", "ls"]).as_array().unwrap().len(), 51);
}

#[test]
fn the_default_vault_is_that_of_the_directory_alone() {
    let mut place = Place::with_vault();
    place.json("vault_create", &["vault", "create", "other"]);
    place.fails("invalid_argument", &["ls"]);
    place.json("vault_use", &["vault", "use", "work"]);
    place.json("ls", &["ls"]);
    place.json("write", &["write", "/a.txt", "x"]);
    assert_eq!(place.cat("/a.txt"), "x");
    // The flag and the variable come first.
    place.fails("file_not_found", &["--vault", "other", "cat", "/a.txt"]);
    let mut command = place.command(&["cat", "/a.txt"]);
    assert!(!command.env("AVFS_VAULT", "other").output().unwrap().status.success());
    assert_eq!(place.json("vault_info", &["vault", "info", "work"])["current"], true);
    // Elsewhere there is no default: agents in different directories do not meet.
    let here = std::mem::replace(&mut place.cwd, tempfile::tempdir().unwrap());
    place.fails("invalid_argument", &["ls"]);
    place.cwd = here;
    // It follows the vault, not the name.
    place.json("vault_rename", &["vault", "rename", "work", "renamed"]);
    place.json("cat", &["cat", "/a.txt"]);
    place.json("vault_use", &["vault", "use", "--clear"]);
    place.fails("invalid_argument", &["ls"]);
}

#[test]
fn removing_asks_first_and_never_guesses_the_answer() {
    let place = Place::with_vault();
    let done = place.avfs(&["vault", "rm", "work"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("--yes"), "{}", done.stderr);
    place.json("vault_info", &["vault", "info", "work"]);
    assert_eq!(place.avfs(&["vault", "rm", "work", "--yes"]).code, 0);
}

#[test]
fn checkpoints_are_saved_listed_compared_restored_and_removed() {
    let place = Place::with_vault();
    place.write("/a.txt", "one");
    place.write("/b.txt", "kept");
    let saved = place.work("checkpoint", &["checkpoint", "save", "before", "-d", "a state"]);
    assert_eq!((saved["name"].as_str(), saved["file_count"].as_u64()), (Some("before"), Some(2)));
    place.write("/a.txt", "two");
    place.work("rm", &["rm", "/b.txt"]);
    place.write("/c.txt", "new");
    let diff = place.work("diff_tree", &["checkpoint", "diff", "before"]);
    let kinds: Vec<_> =
        diff["changes"].as_array().unwrap().iter().map(|one| (&one["path"], &one["kind"])).collect();
    assert_eq!(
        format!("{kinds:?}"),
        r#"[(String("/a.txt"), String("modified")), (String("/b.txt"), String("deleted")), (String("/c.txt"), String("created"))]"#
    );
    // One path alone, then everything; and a restore can be undone.
    place.work("checkpoint_restore", &["snapshot", "restore", "before", "--path", "/b.txt"]);
    assert_eq!((place.cat("/a.txt"), place.cat("/b.txt")), ("two".to_owned(), "kept".to_owned()));
    let restored = place.work("checkpoint_restore", &["checkpoint", "restore", "before"]);
    assert_eq!((place.cat("/a.txt"), restored["changed"].as_bool()), ("one".to_owned(), Some(true)));
    let undo = restored["undo"].as_str().unwrap();
    place.work("checkpoint_restore", &["checkpoint", "restore", undo]);
    assert_eq!(place.cat("/a.txt"), "two");
    let listed = place.work("checkpoint_list", &["checkpoint", "ls"]);
    assert!(names(&listed["snapshots"]).contains(&"before"));
    place.work("checkpoint", &["checkpoint", "info", "before"]);
    place.work("checkpoint_delete", &["checkpoint", "delete", "before"]);
    place.fails("checkpoint_not_found", &["--vault", "work", "checkpoint", "restore", "before"]);
}

#[test]
fn quotas_count_what_is_there() {
    let place = Place::with_vault();
    place.work("quota_change", &["quota", "set", "max_files", "2"]);
    place.write("/a", "1");
    place.write("/b", "1");
    place.fails("quota_exceeded", &["--vault", "work", "write", "/c", "1"]);
    // Replacing a file adds none.
    place.write("/a", "2");
    let (code, envelope) = place.run(&["--", "touch", "c"]);
    assert_eq!((code, envelope["result"]["error"]["code"].as_str()), (125, Some("quota_exceeded")));
    let status = place.work("quota", &["quota"]);
    assert_eq!((status["current_files"].as_u64(), status["max_files"].as_u64()), (Some(2), Some(2)));
    place.work("quota_change", &["quota", "clear", "max_files"]);
    place.write("/c", "1");
    place.fails("invalid_argument", &["--vault", "work", "quota", "set", "max_sheep", "1"]);
}

#[test]
fn what_a_vault_keeps_can_be_set() {
    let place = Place::with_vault();
    let set = place.work("vault_config", &["vault", "config", "keep_auto_checkpoints", "5"]);
    assert_eq!(set["keep_auto_checkpoints"], 5);
    let set = place.work("vault_config", &["vault", "config", "keep_auto_checkpoints", "none"]);
    assert_eq!(set["keep_auto_checkpoints"], Value::Null);
    place.fails("invalid_argument", &["--vault", "work", "vault", "config", "keep_sheep", "1"]);
}

#[test]
fn the_installation_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_vault();
    let mode = fs::metadata(place.home().join("vaults")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}
