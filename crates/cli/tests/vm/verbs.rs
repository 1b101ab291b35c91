//! Details of CLI commands on real machines.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::{fs, thread};

use crate::common::{text, with_input};
use crate::place::Place;

/// Runs a shell script in which `$AGENTISO` is the program, with this input.
fn sh(place: &Place, script: &str, input: &[u8]) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("AGENTISO_HOME", place.path());
    shell.env("AGENTISO", place.command(&[]).get_program()).current_dir(place.path());
    text(&with_input(shell, input).stdout)
}

#[test]
fn a_command_consumes_only_the_input_it_reads() {
    let place = Place::with("web");
    let lines = b"one\ntwo\nthree\nfour\n";
    fs::write(place.path().join("list"), lines).unwrap();
    let all = "got one\ngot two\ngot three\ngot four";
    for each in ["exec -n web", "exec web"] {
        let each = format!("while read -r line; do \"$AGENTISO\" --quiet {each} echo \"got $line\"; done");
        // From a pipe and from a file.
        assert_eq!(sh(&place, &each, lines), all, "{each}");
        assert_eq!(sh(&place, &format!("{{ {each}; }} < list"), b""), all, "{each}");
    }
    // A command that reads a line consumes that line, and one that reads everything consumes everything.
    let pairs = "while read -r line; do \"$AGENTISO\" --quiet exec web sh -c \"read -r next; echo $line \\$next\"; done";
    assert_eq!(sh(&place, pairs, lines), "one two\nthree four");
    assert_eq!(sh(&place, &format!("{{ {pairs}; }} < list"), b""), "one two\nthree four");
    let rest = "read -r line; \"$AGENTISO\" --quiet exec web cat; echo end; cat";
    assert_eq!(sh(&place, rest, lines), "two\nthree\nfour\nend");
    assert_eq!(sh(&place, &format!("{{ {rest}; }} < list"), b""), "two\nthree\nfour\nend");
    // The same applies to `run`.
    let run = "read -r line; \"$AGENTISO\" --quiet run true; cat";
    assert_eq!(sh(&place, run, lines), "two\nthree\nfour");
    // Large input is complete, from a pipe and from a file.
    let much = "head -c 3000000 /dev/zero > zeros; cat zeros | \"$AGENTISO\" --quiet exec web wc -c; \
                \"$AGENTISO\" --quiet exec web wc -c < zeros";
    assert_eq!(sh(&place, much, b""), "3000000\n3000000");
}

#[test]
fn binary_output_names_its_encoding() {
    let place = Place::with("web");
    let said = place.output(&["--json", "exec", "web", "printf", r"\377\000"]).stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!((&said["stdout"], &said["stdout_encoding"]), (&"/wA=".into(), &"base64".into()));
    assert_eq!((&said["stderr"], &said["stderr_encoding"]), (&"".into(), &"text".into()));
}

#[test]
fn a_workspace_is_created_completely_or_not_at_all() {
    let place = Place::new();
    let flags = ["create", "--name", "app", "--memory", "256M", "--env", "STAGE=test", "--forward", "7000"];
    let made = place.output(&[&flags[..], &["--restart", "--", "sh", "-c", "echo $STAGE; exit 3"]].concat());
    assert_eq!((text(&made.stdout), made.status.code()), ("test".to_owned(), Some(3)));
    assert_eq!(place.text(&["forward", "ls", "app", "-q"]), "7000");
    assert_eq!(place.json(&["info", "app"])["restart"], true);
    // A port below 1024 is rejected.
    let refused = place.refused(&["create", "--name", "bad", "--forward", "80:80"]);
    refused.is("port_unavailable", &["80"]);
    assert_eq!(place.names(), ["app"]);

    // The size changes at the next start.
    let kib = |place: &Place| -> u64 {
        place.sh("app", "awk '/MemTotal/ { print $2 }' /proc/meminfo").parse().unwrap()
    };
    assert!(kib(&place) < 256 << 10);
    let updated = place.json(&["update", "app", "--memory", "320M"]);
    assert_eq!(updated["next_resources"]["memory_mb"], 320);
    assert_eq!(place.json(&["info", "app"])["resources"]["memory_mb"], 256);
    place.refused(&["update", "app", "--memory", "1M"]).is("invalid_argument", &["128"]);

    // Like after a power failure: the machine and the daemon are killed.
    let daemon = place.daemon().unwrap();
    for pid in place.processes().into_iter().chain([daemon]) {
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    }
    place.text(&["daemon", "start"]);
    while place.json(&["info", "app"])["state"] != "running" {
        thread::yield_now();
    }
    assert!(kib(&place) > 256 << 10, "it has the new size");
    // A workspace that was stopped on request is not restarted.
    place.text(&["stop", "app"]);
    place.text(&["daemon", "restart"]);
    assert_eq!(place.json(&["info", "app"])["state"], "stopped");
}

#[test]
fn several_workspaces_can_be_stopped_removed_and_pruned_in_one_call() {
    let place = Place::with("web");
    place.text(&["fork", "web", "--count", "2"]);
    place.text(&["label", "web-1", "team=blue"]);
    place.text(&["label", "web-2", "team=blue"]);
    let stopped = place.json(&["stop", "--label", "team=blue"]);
    assert_eq!(stopped["workspaces"].as_array().unwrap().len(), 2);
    // Forks are created concurrently, so either may be older.
    let listed = place.text(&["ls", "-q", "--state", "stopped"]);
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["web-1", "web-2"]);
    place.refused(&["rm", "--all"]).is("workspace_running", &["web"]);
    place.refused(&["prune"]).is("invalid_argument", &["--dry-run", "--force"]);
    assert_eq!(place.json(&["prune", "--dry-run"])["would_remove"].as_array().unwrap().len(), 2);
    assert_eq!(place.text(&["prune", "--force", "--unused-for", "1d"]), "");
    place.text(&["start", "web-2"]);
    place.text(&["prune", "--force"]);
    assert_eq!(place.names(), ["web", "web-2"]);
    place.text(&["rm", "--force", "--label", "team=blue"]);
    assert_eq!(place.names(), ["web"]);
}

#[test]
fn copies_keep_modes_and_times_merge_and_report_skipped_files() {
    let place = Place::with("web");
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::create_dir_all(path("tree/sub")).unwrap();
    for name in ["tree/one", "tree/sub/two", "alone"] {
        let mut file = fs::File::create(path(name)).unwrap();
        writeln!(file, "{name}").unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        file.set_modified(then).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(path("tree/socket")).unwrap();

    // Into the guest, under the name of the source, merged with what is there.
    let copied = place.json(&["cp", &path("tree"), "web:/srv"]);
    assert_eq!((&copied["skipped"][0], &copied["skipped_count"]), (&"socket".into(), &1.into()));
    place.sh("web", "mkdir -p /opt/there/sub; echo old > /opt/there/sub/two; echo kept > /opt/there/kept");
    place.text(&["cp", &path("tree/."), "web:/opt/there"]);
    place.text(&["cp", &path("alone"), &path("tree/one"), "web:/var/tmp"]);
    let look = "cd /; stat -c '%n %a %Y' srv/tree/one srv/tree/sub/two opt/there/sub/two opt/there/kept \
                var/tmp/alone var/tmp/one | sed 's, 644 .*, new,'; cat /opt/there/sub/two";
    let kept = "640 1000000000";
    assert_eq!(
        place.sh("web", look),
        format!(
            "srv/tree/one {kept}\nsrv/tree/sub/two {kept}\nopt/there/sub/two {kept}\nopt/there/kept new\n\
             var/tmp/alone {kept}\nvar/tmp/one {kept}\ntree/sub/two"
        )
    );

    // A replaced file keeps its owner.
    place.sh("web", "echo x > /var/tmp/theirs; chown nobody /var/tmp/theirs");
    place.text(&["cp", &path("alone"), "web:/var/tmp/theirs"]);
    assert_eq!(place.sh("web", "stat -c %U /var/tmp/theirs; cat /var/tmp/theirs"), "nobody\nalone");

    // Out of the guest; a pipe and a socket are skipped.
    place.sh("web", "cd /srv/tree; mkfifo pipe; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local=>q(sock),Listen=>1)'");
    let copied = place.json(&["cp", "web:/srv/tree", &path("back")]);
    let mut skipped: Vec<&str> =
        copied["skipped"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    skipped.sort_unstable();
    assert_eq!(skipped, ["pipe", "sock"]);
    for name in ["back/one", "back/sub/two"] {
        let metadata = fs::metadata(path(name)).unwrap();
        assert_eq!(
            (metadata.permissions().mode() & 0o7777, metadata.modified().unwrap()),
            (0o640, then),
            "{name}"
        );
    }
    fs::write(path("back/mine"), "mine").unwrap();
    fs::write(path("back/one"), "changed").unwrap();
    place.text(&["cp", "web:/srv/tree/.", &path("back")]);
    assert_eq!(fs::read_to_string(path("back/one")).unwrap(), "tree/one\n");
    assert_eq!(fs::read_to_string(path("back/mine")).unwrap(), "mine");

    // Streams, relative paths, and copies between workspaces.
    let written = with_input(place.command(&["cp", "-", "web:notes.txt"]), b"from a pipe\n");
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(place.sh("web", "cat /root/notes.txt"), "from a pipe");
    assert_eq!(place.output(&["cp", "web:notes.txt", "-"]).stdout, b"from a pipe\n");
    place.text(&["fork", "web", "--name", "other"]);
    place.sh("other", "rm -rf /root/notes.txt /srv/tree");
    place.text(&["cp", "web:notes.txt", "web:/srv/tree", "other:/root"]);
    assert_eq!(
        place.sh("other", "cat notes.txt tree/sub/two; stat -c '%a %Y' tree/one"),
        format!("from a pipe\ntree/sub/two\n{kept}")
    );
    place
        .refused(&["cp", &path("alone"), &path("tree/one"), "web:/root/none"])
        .is("invalid_argument", &["directory"]);
    let left: Vec<_> = fs::read_dir(place.path().join("cache/cp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let mut unread = place.command(&["cp", "web:/srv/tree", "-"]);
    assert!(!unread.stdout(Stdio::null()).status().unwrap().success(), "a directory cannot be streamed");
}
