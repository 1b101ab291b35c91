//! Several processes at once.

use std::process::Stdio;

use serde_json::Value;

use crate::place::Place;

#[test]
fn commands_on_one_vault_at_once_all_keep_their_changes() {
    let place = Place::with_vault();
    place.write("/shared", "1\n2\n3\n");
    let start = |number: u32| {
        let line = format!("echo {number} > f{number}; sleep 0.2");
        place
            .command(&["--json", "--vault", "work", "proxy", "exec", "--shell", &line])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..6).map(start).collect();
    for (number, child) in running.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(envelope["result"]["outcome"], "done", "{envelope}");
        // What others changed is not in its report.
        assert_eq!(envelope["result"]["changed_files"], serde_json::json!([format!("/f{number}")]));
    }
    for number in 0..6 {
        assert_eq!(place.cat(&format!("/f{number}")), format!("{number}\n"));
    }
}

#[test]
fn a_conflict_is_reported_and_neither_side_is_lost() {
    let place = Place::with_vault();
    place.write("/f", "base");
    // The first is begun before the second changes the file, and ends after it.
    let line = "read go; echo first > f";
    let mut first = place
        .command(&[
            "--json",
            "--vault",
            "work",
            "proxy",
            "exec",
            "--stdin",
            "--stream",
            "--shell",
            &format!("echo begun; {line}"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(first.stdout.take().unwrap());
    let mut begun = String::new();
    std::io::BufRead::read_line(&mut out, &mut begun).unwrap();
    assert!(begun.contains("begun"), "{begun}");
    place.line("echo second > f");
    std::io::Write::write_all(&mut first.stdin.take().unwrap(), b"go\n").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    first.wait().unwrap();
    let envelope: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    crate::schema::check("proxy_exec_result", &envelope);
    assert_eq!(envelope["result"]["conflicts"][0]["path"], "/f");
    assert_eq!(place.cat("/f"), "second\n");
    let warning = envelope["result"]["warnings"][0].as_str().unwrap();
    let saved = place.work("checkpoint_list", &["checkpoint", "ls"]);
    let saved =
        saved["snapshots"].as_array().unwrap().iter().find(|one| one["kind"] == "conflict").unwrap().clone();
    assert!(warning.contains(saved["name"].as_str().unwrap()), "{warning}");
    place.work("checkpoint_restore", &["checkpoint", "restore", saved["name"].as_str().unwrap()]);
    assert_eq!(place.cat("/f"), "first\n");
}

#[test]
fn two_processes_make_a_fork_of_one_name_together() {
    let place = Place::with_vault();
    let start = |number: u32| {
        place
            .command(&[
                "--json",
                "--vault",
                "work",
                "proxy",
                "exec",
                "--fork",
                "task",
                "--",
                "touch",
                &format!("f{number}"),
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..4).map(start).collect();
    let envelopes: Vec<Value> = running
        .into_iter()
        .map(|child| serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let created = envelopes.iter().filter(|one| one["result"]["fork"]["created"] == true).count();
    assert_eq!(created, 1, "{envelopes:?}");
    assert_eq!(place.json("ls", &["--vault", "task", "ls"]).as_array().unwrap().len(), 4);
}

#[test]
fn vaults_are_created_at_once_in_a_new_installation() {
    let place = Place::new();
    let running: Vec<_> = (0..6)
        .map(|number| {
            place.command(&["vault", "create", &format!("v{number}")]).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.json("vault_list", &["vault", "ls"]).as_array().unwrap().len(), 6);
}

#[test]
fn a_killed_run_changes_nothing_and_is_cleaned_up() {
    let place = Place::with_vault();
    place.write("/f", "before");
    let words = [
        "--json",
        "--vault",
        "work",
        "proxy",
        "exec",
        "--stream",
        "--shell",
        "echo after > f; echo ready; sleep 100",
    ];
    let mut child = place.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.cat("/f"), "before");
    place.json("maintain", &["maintain"]);
    assert_eq!(place.json("vault_info", &["vault", "info", "work"])["uses"], 0);
    assert_eq!(place.line("cat f")["stdout"], "before");
}
