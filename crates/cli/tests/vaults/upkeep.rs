//! Upkeep: collection, checks, statistics, audit.

use crate::place::Place;

#[test]
fn what_no_vault_needs_is_removed_and_nothing_else() {
    let place = Place::with_vault();
    place.write("/keep", "kept");
    place.json("vault_create", &["vault", "create", "gone"]);
    place.json("write", &["--vault", "gone", "write", "/x", "only here"]);
    place.json("vault_delete", &["vault", "rm", "gone"]);
    let dry = place.json("gc", &["gc", "--dry-run"]);
    assert!(dry["orphans_found"].as_u64().unwrap() > 0 && dry["dry_run"] == true, "{dry}");
    let done = place.json("gc", &["gc", "--thorough"]);
    assert!(done["orphans_deleted"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(place.cat("/keep"), "kept");
    assert_eq!(place.json("fsck", &["fsck"])["clean"], true);
}

#[test]
fn a_collection_keeps_what_a_running_command_needs() {
    let place = Place::with_vault();
    place.write("/f", "needed");
    let words = [
        "--json",
        "--vault",
        "work",
        "proxy",
        "exec",
        "--stdin",
        "--stream",
        "--shell",
        "echo ready; read go; cat f",
    ];
    let mut child = place
        .command(&words)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    place.json("vault_delete", &["vault", "rm", "--force", "work"]);
    place.json("gc", &["gc", "--thorough"]);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    child.wait().unwrap();
    assert!(rest.contains("needed"), "{rest}");
}

#[test]
fn old_history_is_pruned_on_request() {
    let place = Place::with_vault();
    for text in ["1", "2", "3", "4"] {
        place.write("/f", text);
    }
    let dry = place.work("prune", &["prune", "/f", "--keep", "1", "--dry-run"]);
    assert_eq!(dry["versions_deleted"], 3);
    place.work("prune", &["prune", "/f", "--keep", "1"]);
    assert_eq!(place.work("log", &["log", "/f"]).as_array().unwrap().len(), 1);
    assert_eq!(place.avfs(&["--vault", "work", "prune"]).code, 2);
    place.json("compact", &["compact"]);
    place.json("maintain", &["maintain"]);
}

#[test]
fn everything_that_was_done_is_in_the_audit_log() {
    let place = Place::with_vault();
    place.write("/f", "1");
    place.run(&["--", "touch", "g"]);
    place.run(&["--", "cat", "/etc/shadow"]);
    let log = place.work("audit", &["audit"]);
    let operations: Vec<_> =
        log["entries"].as_array().unwrap().iter().map(|one| one["operation"].as_str().unwrap()).collect();
    for operation in ["proxy_exec_requested", "proxy_exec_completed", "proxy_exec_denied"] {
        assert!(operations.contains(&operation), "{operations:?}");
    }
    let denied = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["operation"] == "proxy_exec_denied")
        .unwrap();
    assert_eq!(denied["details"]["command"], "cat /etc/shadow");
    let only = place.work("audit", &["audit", "--operation", "proxy_exec_denied", "--since", "2020-01-01"]);
    assert_eq!(only["total_count"], 1);
    assert_eq!(place.avfs(&["audit", "--since", "yesterday"]).code, 2);
    place.work("audit_clear", &["audit", "clear"]);
}

#[test]
fn damage_is_found_and_named() {
    let place = Place::with_vault();
    place.write("/precious.txt", &"content that is long enough to be a blob of its own ".repeat(100));
    let packs = place.home().join("vaults/store/packs");
    let mut damaged = 0;
    for entry in std::fs::read_dir(packs).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // Behind the header, before the index.
        for byte in bytes.iter_mut().skip(60).take(8) {
            *byte ^= 0xff;
        }
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        std::fs::set_permissions(&path, permissions).unwrap();
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0);
    let done = place.avfs(&["--json", "fsck"]);
    assert_eq!((done.code, done.value("fsck")["clean"].as_bool()), (1, Some(false)));
}
