//! What the prior system got wrong.

use serde_json::json;

use crate::place::Place;

#[test]
fn a_redirection_is_a_change_with_a_checkpoint_and_is_reported() {
    let place = Place::with_vault();
    let result = place.line("echo x > a.txt");
    assert_eq!(result["decision"]["categories"], json!(["mutating"]));
    assert!(result["checkpoint"].is_string());
    assert_eq!(result["changed_files"], json!(["/a.txt"]));
}

#[test]
fn wildcards_of_sql_in_names_are_letters() {
    let place = Place::with_vault();
    for path in ["/a_b/f", "/axb/f", "/a%b/f"] {
        place.write(path, "x");
    }
    place.work("rm", &["rm", "-r", "/a_b"]);
    place.work("rm", &["rm", "-r", "/a%b"]);
    assert_eq!(place.cat("/axb/f"), "x");
}

#[test]
fn commands_within_one_second_all_get_their_checkpoint() {
    let place = Place::with_vault();
    let names: Vec<String> = (0..5)
        .map(|number| place.line(&format!("echo {number} > f"))["checkpoint"].as_str().unwrap().to_owned())
        .collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 5, "{names:?}");
}

#[test]
fn files_are_replaced_by_renames_as_editors_and_git_do() {
    let place = Place::with_vault();
    place.write("/f", "old");
    let result = place.line("echo new > f.tmp && mv f.tmp f && mkdir -p d && ln f d/hard && (cd d && ln -s ../f soft) && cat d/hard d/soft");
    assert_eq!(result["stdout"], "new\nnew\n");
    assert_eq!(place.cat("/f"), "new\n");
    let result = place.line("stat -c %h f; readlink d/soft");
    assert_eq!(result["stdout"], "2\n../f\n");
}

#[test]
fn programs_in_the_vault_can_be_executed() {
    let place = Place::with_vault();
    place.work("write", &["write", "--mode", "755", "/run.sh", "#!/bin/sh\necho ran\n"]);
    let (code, envelope) = place.run(&["--", "./run.sh"]);
    assert_eq!((code, envelope["result"]["stdout"].as_str()), (0, Some("ran\n")));
}

#[test]
fn git_works() {
    let place = Place::with_vault();
    let result = place.line(
        "git init -q -b master . && git config user.email a@b && git config user.name n && echo 1 > f && git add f && \
         git commit -qm one && echo 2 > f && git commit -qam two && git checkout -q HEAD~1 && cat f && git status --short",
    );
    assert_eq!(result["stdout"], "1\n", "{result}");
    let result = place
        .line("git worktree add -q /tmp/copy master && cat /tmp/copy/f; git log --oneline --all | wc -l");
    assert_eq!(result["stdout"].as_str().unwrap().trim(), "2\n2");
}

#[test]
fn a_timeout_ends_the_whole_tree_of_processes() {
    let place = Place::with_vault();
    let line = "(trap '' TERM HUP; while :; do sleep 0.05; date +%N > beat; done) & disown; sleep 100";
    let (code, _) = place.run(&["--timeout", "500", "--shell", line]);
    assert_eq!(code, 124);
    assert_eq!(place.json("vault_info", &["vault", "info", "work"])["uses"], 0);
}

#[test]
fn nothing_is_left_behind_after_runs() {
    let place = Place::with_vault();
    for line in ["echo x > f", "exit 3", "kill -9 $$"] {
        place.run(&["--shell", line]);
    }
    let work = std::fs::read_dir(place.home().join("vaults/work")).unwrap();
    let names = work.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Apart from locks, and what is known about the host.
    let left: Vec<_> = names.filter(|name| !name.ends_with(".lock") && name != "support.json").collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(place.home().to_str().unwrap()), "{mounts}");
}

#[test]
fn the_help_and_the_completions_name_the_program_as_it_is_called() {
    let place = Place::new();
    let help = place.avfs(&["--help"]).stdout;
    assert!(help.contains("avfs") && help.contains("proxy"), "{help}");
    let script = place.json("completions", &["completions", "bash"]);
    assert!(script["script"].as_str().unwrap().contains("avfs"));
    let aliases = place.json("aliases", &["aliases"]);
    assert_eq!(aliases["aliases"][0], json!({ "name": "vls", "command": "avfs ls" }));
}

#[test]
fn there_is_one_json_value_per_call_wherever_the_flag_stands() {
    let place = Place::with_vault();
    for words in [["--json", "vault", "ls"], ["vault", "--json", "ls"], ["vault", "ls", "--json"]] {
        assert_eq!(place.avfs(&words).value("vault_list")[0]["name"], "work");
    }
    let done = place.avfs(&["vault", "lss", "--json"]);
    assert_eq!((done.code, done.value("error")["error"]["code"].as_str()), (2, Some("invalid_argument")));
    let done = place.avfs(&["--json", "ls", "--vault", "work", "/none"]);
    assert_eq!((done.code, done.value("error")["error"]["code"].as_str()), (1, Some("file_not_found")));
}
