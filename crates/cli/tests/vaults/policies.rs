//! The policy in front of commands.

use std::fs;

use crate::place::Place;

#[test]
fn a_decision_is_explained_as_it_will_be_made() {
    let place = Place::with_vault();
    for (line, action) in [
        ("git status", "allow"),
        ("echo x > a.txt", "allow_with_checkpoint"),
        ("rm -rf build", "allow_with_checkpoint"),
        ("curl https://example.com", "require_approval"),
        ("cat ~/.ssh/id_rsa", "deny"),
        ("ls && sudo rm -rf /", "deny"),
    ] {
        let explained = place.work("policy_explanation", &["policy", "explain", "--shell", line]);
        assert_eq!(explained["decision"]["action"], action, "{line}");
        let (_, envelope) = place.run(&["--dry-run", "--shell", line]);
        assert_eq!(envelope["result"]["decision"], explained["decision"], "{line}");
    }
}

#[test]
fn the_policy_of_a_vault_comes_first_and_goes_with_its_forks() {
    let place = Place::with_vault();
    let file = place.cwd.path().join("policy.toml");
    fs::write(&file, "[[rule]]\naction = \"deny\"\nprogram = \"make\"\nreason = \"not here\"\n").unwrap();
    place.work("policy_set", &["policy", "set", file.to_str().unwrap()]);
    let (code, envelope) = place.run(&["--", "make", "all"]);
    assert_eq!((code, envelope["result"]["decision"]["reason"].as_str()), (126, Some("not here")));
    let (code, _) = place.run(&["--fork", "auto", "--", "make", "all"]);
    assert_eq!(code, 126, "a fork is judged like its source");
    place.json("vault_fork", &["vault", "fork", "work", "task"]);
    assert_eq!(place.run_in("task", &["--", "make"]).0, 126);
    let mut shared = place.command(&["--json", "--vault", "task", "policy", "explain", "--", "make"]);
    let explained: serde_json::Value = serde_json::from_slice(&shared.output().unwrap().stdout).unwrap();
    assert_eq!(explained["decision"]["rule"], "vault:rule 1");
    place.work("policy_set", &["policy", "clear"]);
    assert_ne!(place.run(&["--dry-run", "--", "make"]).0, 126);
}

#[test]
fn the_first_program_explains_what_is_decided_in_a_vault() {
    let place = Place::with_vault();
    let file = place.cwd.path().join("policy.toml");
    fs::write(&file, "[[rule]]\naction = \"deny\"\nprogram = \"make\"\n").unwrap();
    place.work("policy_set", &["policy", "set", file.to_str().unwrap()]);
    let explain = |vault: &str| {
        let mut command = place.agentiso(&["policy", "explain", "--json", "--vault", vault, "--", "make"]);
        command.output().unwrap()
    };
    let explained: serde_json::Value = serde_json::from_slice(&explain("work").stdout).unwrap();
    assert_eq!(explained["decision"]["rule"], "vault:rule 1");
    assert_eq!(explained["workspace"], serde_json::json!(["/workspace"]));
    let missing = explain("absent");
    assert_eq!(missing.status.code(), Some(1), "{}", String::from_utf8_lossy(&missing.stdout));
}

#[test]
fn a_policy_with_mistakes_is_refused_and_stops_nothing() {
    let place = Place::with_vault();
    let file = place.cwd.path().join("policy.toml");
    fs::write(&file, "[[rule]]\naction = \"alow\"\n").unwrap();
    let file = file.to_str().unwrap();
    let message = place.fails("invalid_config", &["policy", "check", file]);
    assert!(message.contains(":2:") && message.contains("allow"), "{message}");
    place.fails("invalid_config", &["--vault", "work", "policy", "set", file]);
    assert_eq!(place.run(&["--", "true"]).0, 0);
    // One that was damaged later stops every command: it might have denied it.
    let policies = place.home().join("vaults/policies");
    fs::create_dir_all(&policies).unwrap();
    let id = place.json("vault_info", &["vault", "info", "work"])["id"].as_str().unwrap().to_owned();
    fs::write(policies.join(format!("{id}.toml")), "nonsense").unwrap();
    let (code, envelope) = place.run(&["--", "true"]);
    assert_eq!((code, envelope["result"]["error"]["code"].as_str()), (125, Some("invalid_config")));
}

#[test]
fn variables_are_judged_with_the_command() {
    let place = Place::with_vault();
    let (_, envelope) = place.run(&["--dry-run", "--env", "LD_PRELOAD=/workspace/x.so", "--", "ls"]);
    assert_ne!(envelope["result"]["decision"]["action"], "allow", "{envelope}");
    let (_, envelope) = place.run(&["--dry-run", "--env", "LANG=C", "--", "ls"]);
    assert_eq!(envelope["result"]["decision"]["action"], "allow", "{envelope}");
}
