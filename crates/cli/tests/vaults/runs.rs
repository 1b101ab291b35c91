//! What a command sees and changes.

use std::fs;

use serde_json::{Value, json};

use crate::place::Place;

/// Kind and path of every change.
fn changes(result: &Value) -> Vec<(String, String)> {
    let list = result["changes"].as_array().unwrap().iter();
    let text = |one: &Value| one.as_str().unwrap().to_owned();
    list.map(|one| (text(&one["kind"]), text(&one["path"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, path)| ((*kind).to_owned(), (*path).to_owned())).collect()
}

#[test]
fn every_change_is_reported_exactly() {
    let place = Place::with_vault();
    for (path, text) in
        [("/edit", "before"), ("/gone", "x"), ("/mode", "x"), ("/old name", "moved content"), ("/same", "x")]
    {
        place.write(path, text);
    }
    let result = place.line(
        "echo after > edit; rm gone; chmod 755 mode; mv 'old name' 'new name'; mkdir dir; ln -s edit dir/link; touch same; \
         echo tmp > tmp; rm tmp",
    );
    assert_eq!(
        changes(&result),
        pairs(&[
            ("created", "/dir"),
            ("created", "/dir/link"),
            ("modified", "/edit"),
            ("deleted", "/gone"),
            ("modified", "/mode"),
            ("renamed", "/new name"),
        ])
    );
    let by_path = |path: &str| {
        result["changes"].as_array().unwrap().iter().find(|one| one["path"] == path).unwrap().clone()
    };
    let edit = by_path("/edit");
    assert_eq!((edit["size_before"].as_u64(), edit["size_after"].as_u64()), (Some(6), Some(6)));
    assert_ne!(edit["hash_before"], edit["hash_after"]);
    let mode = by_path("/mode");
    assert_eq!((mode["mode_before"].as_str(), mode["mode_after"].as_str()), (Some("0644"), Some("0755")));
    assert_eq!(by_path("/new name")["old_path"], "/old name");
    assert_eq!(by_path("/dir/link")["type"], "symlink");
    assert_eq!(result["changed_files"], json!(["/dir", "/dir/link", "/edit", "/gone", "/mode", "/new name"]));
    assert_eq!(
        (result["changes_total"].as_u64(), result["changes_truncated"].as_bool()),
        (Some(6), Some(false))
    );
}

#[test]
fn many_changes_are_counted_and_the_list_is_shortened() {
    let place = Place::with_vault();
    let result = place.line("for i in $(seq 1 1200); do echo $i > f$i; done");
    assert_eq!(
        (result["changes_total"].as_u64(), result["changes_truncated"].as_bool()),
        (Some(1200), Some(true))
    );
    assert_eq!(result["changes"].as_array().unwrap().len(), 1000);
    assert_eq!(place.work("stats", &["stats"])["files"], 1200);
}

#[test]
fn a_checkpoint_is_taken_before_a_change_and_brings_it_back() {
    let place = Place::with_vault();
    place.write("/a.txt", "precious");
    let result = place.line("rm -rf *");
    assert_eq!(result["decision"]["action"], "allow_with_checkpoint");
    let checkpoint = result["checkpoint"].as_str().unwrap();
    place.work("checkpoint_restore", &["checkpoint", "restore", checkpoint]);
    assert_eq!(place.cat("/a.txt"), "precious");
    let checkpoint = |words: &[&str]| {
        place.run(&[words, &["--", "touch", "x"]].concat()).1["result"]["checkpoint"].clone()
    };
    assert!(checkpoint(&["--checkpoint", "never"]).is_null());
    assert!(checkpoint(&["--readonly"]).is_null(), "a command that cannot change anything needs none");
    let (_, envelope) = place.run(&["--checkpoint", "always", "--", "true"]);
    assert!(envelope["result"]["checkpoint"].is_string());
}

#[test]
fn a_command_cannot_change_a_read_only_vault() {
    let place = Place::with_vault();
    place.write("/a.txt", "x");
    let (code, envelope) = place.run(&["--readonly", "--shell", "cat a.txt; echo y > a.txt"]);
    assert_ne!(code, 0);
    assert_eq!(envelope["result"]["stdout"], "x");
    assert_eq!(envelope["result"]["readonly"], true);
    assert_eq!(envelope["result"]["changes_total"], 0);
    assert_eq!(place.cat("/a.txt"), "x");
}

#[test]
fn a_command_runs_in_a_fork_on_request() {
    let place = Place::with_vault();
    place.write("/a.txt", "durable");
    let (_, envelope) = place.run(&["--fork", "auto", "--shell", "echo changed > a.txt"]);
    let fork = &envelope["result"]["fork"];
    assert_eq!((fork["source"].as_str(), fork["created"].as_bool()), (Some("work"), Some(true)));
    assert_eq!(place.cat("/a.txt"), "durable");
    let name = fork["name"].as_str().unwrap();
    assert_eq!(envelope["result"]["workspace"], name);
    assert_eq!(place.json("cat", &["--vault", name, "cat", "/a.txt"])["content"], "changed\n");
    let created = |run: (i32, Value)| run.1["result"]["fork"]["created"].as_bool();
    assert_eq!(created(place.run(&["--fork", "task", "--", "touch", "b"])), Some(true));
    assert_eq!(created(place.run(&["--fork", "task", "--", "touch", "c"])), Some(false));
    // A vault of that name that is something else is not touched.
    place.json("vault_create", &["vault", "create", "stranger"]);
    let (code, envelope) = place.run(&["--fork", "stranger", "--", "touch", "b"]);
    assert_eq!((code, envelope["result"]["outcome"].as_str()), (125, Some("invalid_request")));
}

#[test]
fn the_command_gets_its_directory_variables_and_standard_input() {
    let place = Place::with_vault();
    place.work("mkdir", &["mkdir", "-p", "/src/lib"]);
    let (_, envelope) = place.run(&[
        "--cwd",
        "/src/lib",
        "--env",
        "GREETING=hello world",
        "--shell",
        "pwd; echo $GREETING; echo $AVFS_VAULT $AVFS_MOUNTPOINT",
    ]);
    assert_eq!(envelope["result"]["stdout"], "/workspace/src/lib\nhello world\nwork /workspace\n");
    assert_eq!(envelope["request"]["env"], json!(["GREETING"]));
    assert!(!envelope.to_string().contains("GREETING=hello"));
    let words = ["--json", "--vault", "work", "proxy", "exec", "--stdin", "--", "wc", "-c"];
    let done = place.avfs_with_input(&words, b"12345");
    assert_eq!(done.value("proxy_exec_result")["result"]["stdout"].as_str().unwrap().trim(), "5");
    // Without --stdin there is nothing to read.
    let done =
        place.avfs_with_input(&["--json", "--vault", "work", "proxy", "exec", "--", "wc", "-c"], b"12345");
    assert_eq!(done.value("proxy_exec_result")["result"]["stdout"].as_str().unwrap().trim(), "0");
}

#[test]
fn secrets_of_the_caller_do_not_reach_the_command() {
    let place = Place::with_vault();
    let mut command = place.command(&["--json", "--vault", "work", "proxy", "exec", "--", "env"]);
    let output = command.env("AWS_SECRET_ACCESS_KEY", "geheim").env("LANG", "C.UTF-8").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("geheim") && text.contains("LANG=C.UTF-8"), "{text}");
}

#[test]
fn long_output_is_shortened_in_the_middle_and_kept_in_a_file() {
    let place = Place::with_vault();
    let result = place.line("seq 1 100000; printf '\\377' >&2");
    let capture = &result["stdout_capture"];
    assert_eq!(
        (capture["bytes"].as_u64(), capture["truncated"].as_bool(), capture["complete"].as_bool()),
        (Some(588_895), Some(true), Some(true))
    );
    let text = result["stdout"].as_str().unwrap();
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n100000\n") && text.contains("bytes omitted"));
    let file = capture["file"].as_str().unwrap();
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(file).unwrap(), whole);
    assert_eq!(result["stderr_capture"]["encoding"], "lossy");
}

#[test]
fn output_is_streamed_before_the_envelope() {
    let place = Place::with_vault();
    let done = place.avfs(&[
        "--json",
        "--vault",
        "work",
        "proxy",
        "exec",
        "--stream",
        "--shell",
        "echo a; echo b >&2",
    ]);
    let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (envelope, events) = lines.split_last().unwrap();
    crate::schema::check("proxy_exec_result", envelope);
    let mut text = [String::new(), String::new()];
    for event in events {
        crate::schema::check("proxy_exec_output", event);
        text[usize::from(event["stream"] == "stderr")].push_str(event["text"].as_str().unwrap());
    }
    assert_eq!(text, ["a\n", "b\n"]);
    // A person sees the output as it is, and notes on standard error.
    let done = place.avfs(&["--vault", "work", "proxy", "exec", "--shell", "echo a; exit 3"]);
    assert_eq!((done.code, done.stdout.as_str()), (3, "a\n"));
    assert!(done.stderr.contains("(exit code: 3)"), "{}", done.stderr);
}

#[test]
fn what_confines_a_command_is_reported() {
    let place = Place::with_vault();
    let result = place.line("true");
    let enforcement = &result["enforcement"];
    assert_eq!(enforcement["network"], "none");
    let names: Vec<_> = enforcement["protections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in ["filesystem", "network", "no_new_privileges", "seccomp"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(result["usage"]["max_rss_bytes"].as_u64().unwrap() > 0);
    assert_eq!(result["mountpoint"], "/workspace");
}

#[test]
fn the_vault_can_be_seen_at_a_directory_that_exists() {
    let place = Place::with_vault();
    place.write("/a.txt", "x");
    let at = tempfile::tempdir().unwrap();
    let path = at.path().to_str().unwrap();
    let (code, envelope) = place.run(&["--mountpoint", path, "--shell", "pwd; echo y > b.txt; ls"]);
    assert_eq!(code, 0, "{envelope}");
    let real = fs::canonicalize(path).unwrap();
    assert_eq!(envelope["result"]["stdout"], format!("{}\na.txt\nb.txt\n", real.display()));
    assert_eq!(fs::read_dir(path).unwrap().count(), 0, "nothing is left on the host");
    assert_eq!(place.cat("/b.txt"), "y\n");
    for wrong in ["/no/such/dir", "/etc", "/", "/usr/lib", "/home"] {
        let (code, envelope) = place.run(&["--mountpoint", wrong, "--", "true"]);
        assert_eq!((code, envelope["result"]["outcome"].as_str()), (125, Some("invalid_request")), "{wrong}");
    }
    assert_eq!(
        place.avfs(&["--json", "--vault", "work", "proxy", "exec", "--keep-mount", "--", "true"]).code,
        2
    );
}

#[test]
fn a_command_runs_on_one_file() {
    let place = Place::with_vault();
    place.write("/data.csv", "b\na\n");
    let ran = place.work("exec", &["exec", "/data.csv", "--", "wc", "-l"]);
    assert!(ran["stdout"].as_str().unwrap().starts_with("2 "), "{ran}");
    assert_eq!(ran["reimported"], false);
    let ran = place.work("exec", &["exec", "/data.csv", "--reimport", "--", "sort", "-o", "{}", "{}"]);
    assert_eq!((ran["reimported"].as_bool(), ran["reimport_bytes"].as_u64()), (Some(true), Some(4)));
    assert_eq!(place.cat("/data.csv"), "a\nb\n");
    // A command that fails does not change the file behind anybody's back.
    let done = place.avfs(&["--json", "--vault", "work", "exec", "/data.csv", "--", "cp", "/dev/null", "{}"]);
    assert_ne!(done.code, 0);
    assert_eq!(place.cat("/data.csv"), "a\nb\n");
}
