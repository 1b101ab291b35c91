//! Import, export and mounts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::place::Place;

#[test]
fn a_directory_survives_import_and_export() {
    let place = Place::with_vault();
    let from = place.cwd.path().join("from");
    fs::create_dir_all(from.join("dir")).unwrap();
    fs::write(from.join("dir/a"), "text").unwrap();
    fs::set_permissions(from.join("dir/a"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("dir/a", from.join("link")).unwrap();
    let imported = place.work("import", &["import", from.to_str().unwrap(), "/"]);
    assert_eq!((imported["files_imported"].as_u64(), imported["dirs_created"].as_u64()), (Some(2), Some(1)));
    let to = place.cwd.path().join("to");
    place.work("export", &["export", "/", to.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "text");
    assert_eq!(fs::read_link(to.join("link")).unwrap().to_str(), Some("dir/a"));
    assert_eq!(fs::metadata(to.join("dir/a")).unwrap().permissions().mode() & 0o777, 0o751);
    // Nothing is replaced without being asked for.
    assert_ne!(place.avfs(&["--json", "--vault", "work", "export", "/", to.to_str().unwrap()]).code, 0);
    place.work("export", &["export", "--overwrite", "/", to.to_str().unwrap()]);
}

#[test]
fn archives_and_repositories_go_in_and_out() {
    let place = Place::with_vault();
    place.write("/src/a", "text");
    let archive = place.cwd.path().join("a.tar");
    place.work("export", &["export", "--tar", "/src", archive.to_str().unwrap()]);
    place.work("import", &["import", "--tar", archive.to_str().unwrap(), "/again"]);
    assert_eq!(place.cat("/again/a"), "text");
    place.work("checkpoint", &["checkpoint", "save", "one"]);
    let repository = place.cwd.path().join("repo.git");
    let exported = place.work("export", &["export", "--git", "main", "/", repository.to_str().unwrap()]);
    assert!(exported["commit"].is_string());
    place.work(
        "import",
        &["import", "--git", repository.to_str().unwrap(), "--revision", "main", "/from-git"],
    );
    assert_eq!(place.cat("/from-git/src/a"), "text");
}

#[test]
fn a_mounted_vault_is_a_directory_and_its_changes_are_kept() {
    let place = Place::with_vault();
    place.write("/a", "x");
    let point = place.cwd.path().join("m");
    fs::create_dir(&point).unwrap();
    let mounted = place.json("mount", &["mount", "work", point.to_str().unwrap()]);
    assert_eq!((mounted["vault"].as_str(), mounted["state"].as_str()), (Some("work"), Some("live")));
    assert_eq!(fs::read_to_string(point.join("a")).unwrap(), "x");
    fs::write(point.join("b"), "y").unwrap();
    // A checkpoint has what is mounted.
    place.work("checkpoint", &["checkpoint", "save", "live"]);
    assert_eq!(place.cat("/b"), "y");
    fs::write(point.join("c"), "z").unwrap();
    assert_eq!(place.json("mount_list", &["mount"])[0]["vault"], "work");
    let unmounted = place.json("unmount", &["unmount", point.to_str().unwrap()]);
    assert_eq!((unmounted["success"].as_bool(), unmounted["changes_total"].as_u64()), (Some(true), Some(1)));
    assert_eq!(place.cat("/c"), "z");
    assert!(!point.join("a").exists());
    place.fails("invalid_argument", &["unmount", point.to_str().unwrap()]);
}

#[test]
fn a_mount_in_conflict_with_its_vault_loses_nothing() {
    let place = Place::with_vault();
    place.write("/a", "base");
    let point = place.cwd.path().join("m");
    fs::create_dir(&point).unwrap();
    place.json("mount", &["mount", "work", point.to_str().unwrap()]);
    fs::write(point.join("a"), "mount").unwrap();
    place.write("/a", "vault");
    let unmounted = place.json("unmount", &["unmount", point.to_str().unwrap()]);
    assert_eq!(unmounted["conflicts"][0]["path"], "/a");
    assert_eq!(place.cat("/a"), "vault");
    let fork = unmounted["saved_as"].as_str().unwrap();
    assert_eq!(place.json("cat", &["--vault", fork, "cat", "/a"])["content"], "mount");
}

#[test]
fn a_command_sees_a_vault_without_a_mount() {
    let place = Place::with_vault();
    place.write("/a", "x");
    let entered =
        place.work("enter", &["enter", "--", "sh", "-c", "cat a >&2; echo y > b; echo $AVFS_VAULT >&2"]);
    assert_eq!((entered["exit_code"].as_u64(), entered["changes_total"].as_u64()), (Some(0), Some(1)));
    assert_eq!(place.cat("/b"), "y\n");
    assert_eq!(place.avfs(&["--vault", "work", "enter", "--", "sh", "-c", "exit 5"]).code, 5);
}

#[test]
fn what_a_full_vault_cannot_take_from_a_mount_becomes_a_fork() {
    let place = Place::with_vault();
    place.work("quota_change", &["quota", "set", "max_files", "1"]);
    let point = place.cwd.path().join("m");
    fs::create_dir(&point).unwrap();
    place.json("mount", &["mount", "work", point.to_str().unwrap()]);
    fs::write(point.join("a"), "a").unwrap();
    fs::write(point.join("b"), "b").unwrap();
    let unmounted = place.json("unmount", &["unmount", point.to_str().unwrap()]);
    let fork = unmounted["saved_as"].as_str().unwrap();
    assert_eq!(place.json("cat", &["--vault", fork, "cat", "/b"])["content"], "b");
    assert_eq!(place.work("ls", &["ls"]), serde_json::json!([]));
}

#[test]
fn a_mounted_vault_is_not_removed() {
    let place = Place::with_vault();
    let point = place.cwd.path().join("m");
    fs::create_dir(&point).unwrap();
    place.json("mount", &["mount", "work", point.to_str().unwrap()]);
    fs::write(point.join("a"), "a").unwrap();
    place.fails("vault_busy", &["vault", "rm", "work"]);
    place.json("vault_delete", &["vault", "rm", "work", "--force"]);
    // What is there can still be copied.
    place.fails("vault_not_found", &["unmount", point.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(point.join("a")).unwrap(), "a");
    place.json("unmount", &["unmount", point.to_str().unwrap(), "--lazy"]);
    assert_eq!(place.json("mount_list", &["mount"]), serde_json::json!([]));
}

#[test]
fn what_a_mount_had_is_kept_when_it_was_taken_away_by_other_means() {
    let place = Place::with_vault();
    for (name, words) in [("m", &["unmount"][..]), ("n", &["mount"])] {
        let point = place.cwd.path().join(name);
        fs::create_dir(&point).unwrap();
        let shown = point.to_str().unwrap();
        place.json("mount", &["mount", "work", shown, "--by", "plain"]);
        fs::write(point.join(name), name).unwrap();
        fs::remove_file(&point).unwrap();
        let path = if name == "m" { vec![shown] } else { Vec::new() };
        assert_eq!(place.avfs(&[words, &path].concat()).code, 0, "{words:?}");
        assert_eq!(place.cat(&format!("/{name}")), name);
    }
}
