//! Commands that an earlier classifier of this kind got wrong, and rules that hold for any line.

use agentiso_policy::command::{
    Action, Categories, Category, Command, CommandPolicies, MAX_DEPTH, Scope, Step, classify, decide,
    explain, parse_policy,
};
use proptest::prelude::*;

fn scope() -> Scope {
    Scope::new("/workspace").with_home("/home/user")
}

fn of(line: &str) -> Categories {
    classify(&scope(), Command::Shell(line)).categories
}

fn action(line: &str) -> Action {
    decide(&CommandPolicies::built_in(), &classify(&scope(), Command::Shell(line))).action
}

fn all_have(category: Category, lines: &[&str]) {
    for line in lines {
        assert!(of(line).has(category), "{line}: {}", of(line));
    }
}

#[test]
fn what_changes_something_is_never_read_only() {
    all_have(
        Category::Mutating,
        &[
            "git push",
            "git commit -m x",
            "git checkout -f",
            "git rm a",
            "git stash",
            "git -C dir reset --hard",
            "find . -delete",
            "find . -exec rm {} +",
            "echo x > f",
            "cat a > b",
            "ls && rm -rf *",
        ],
    );
    assert!(!of("pwd; curl https://example.com").is_read_only());
}

#[test]
fn the_network_is_noticed() {
    all_have(
        Category::Networked,
        &[
            "pip install x",
            "uv sync",
            "go get x",
            "gem install x",
            "apt install x",
            "ssh host ls",
            "scp a host:",
            "rsync a host:b",
            "nc host 80",
            "docker pull x",
            "npx x",
            "npm ci",
            "npm i",
            "yarn",
            "git push",
            "git remote update",
            "bash -c \"curl https://example.com\"",
            "python -c \"import requests; requests.get('https://example.com')\"",
            "/usr/bin/curl https://example.com",
            "pwd; curl https://example.com",
        ],
    );
}

#[test]
fn what_cannot_be_made_again_is_destructive() {
    all_have(
        Category::Destructive,
        &[
            "rm file",
            "mv a b",
            "truncate -s 0 f",
            "dd if=a of=b",
            "shred f",
            "git checkout .",
            "git branch -D x",
            "git clean -f",
            "git reset --hard",
        ],
    );
    // Deleting is what makes it destructive, not the letters of its name.
    assert_eq!(of("cat my-file"), Categories::READ_ONLY);
}

#[test]
fn paths_outside_are_found_wherever_they_stand() {
    all_have(
        Category::HostEscapeRisk,
        &[
            "cat ~",
            "cat ~/x",
            "cat $HOME/x",
            "ls /etc",
            "ls /root",
            "touch /usr/x",
            "ls /opt",
            "cat /proc/1/environ",
            "cat /dev/sda",
            "cat ../../x",
            "tool --file=/etc/x",
            "sh -c 'echo hello; cat /etc/passwd'",
        ],
    );
    for inside in
        ["ls /workspace/src", "cat /tmp/x", "ls > /dev/null", "/usr/local/bin/ls", "cat /usr/include/a.h"]
    {
        assert!(!of(inside).has(Category::HostEscapeRisk), "{inside}");
    }
    // The workspace may be below /home or /var.
    let scope = Scope::new("/home/user/project").with_home("/home/user");
    let inside = classify(&scope, Command::Shell("cat /home/user/project/a ~/project/b"));
    assert_eq!(inside.categories, Categories::READ_ONLY);
}

#[test]
fn the_built_in_policy_decides_by_category() {
    assert_eq!(action("ls"), Action::Allow);
    assert_eq!(action("cargo test"), Action::AllowWithCheckpoint);
    assert_eq!(action("rm x"), Action::AllowWithCheckpoint);
    assert_eq!(action("top"), Action::AllowWithCheckpoint);
    assert_eq!(action("curl https://example.com"), Action::RequireApproval);
    assert_eq!(action("cat /etc/passwd"), Action::Deny);
    assert_eq!(action(""), Action::Allow);
}

#[test]
fn nothing_is_an_escape_on_a_machine_of_its_own() {
    let machine = Scope::new("/");
    let found = classify(&machine, Command::Shell("sudo apt-get install -y jq && rm /etc/motd")).categories;
    assert!(!found.has(Category::HostEscapeRisk));
    assert!(found.has(Category::Networked) && found.has(Category::Destructive));
}

#[test]
fn arguments_without_a_shell_are_taken_literally() {
    let argv = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        classify(&scope(), Command::Argv(&words)).categories
    };
    assert_eq!(argv(&["echo", "$(rm -rf x)", ";", "rm", "x"]), Categories::READ_ONLY);
    assert_eq!(argv(&["ls", ">", "file"]), Categories::READ_ONLY);
    assert!(argv(&["bash", "-c", "rm x"]).has(Category::Destructive));
    assert!(argv(&["cat", "/etc/passwd"]).has(Category::HostEscapeRisk));
    assert_eq!(argv(&[]), Categories::READ_ONLY);
}

#[test]
fn a_rule_for_one_program_does_not_cover_the_rest_of_the_line() {
    let file = parse_policy(
        "[[rule]]\nname = \"curl\"\naction = \"allow\"\nprogram = \"curl\"\n\n[[rule]]\nname = \"keys\"\n\
         action = \"deny\"\npath = \"**/*.key\"\nreason = \"keys stay here\"\n\n[[rule]]\nname = \"writes\"\n\
         action = \"require_approval\"\ncategory = \"mutating\"\nprogram = \"git\"\nargs = [\"push\", \"--force*\"]\n",
        "p.toml",
    )
    .unwrap();
    let policies = CommandPolicies::new(None, Some(file), None);
    let decide = |line: &str| decide(&policies, &classify(&scope(), Command::Shell(line)));
    assert_eq!(decide("curl https://example.com").rule, "user:curl");
    assert_eq!(decide("curl https://example.com").action, Action::Allow);
    assert_eq!(decide("curl https://example.com; wget x.org").rule, "default:networked");
    let keys = decide("curl https://example.com && cat sub/a.key");
    assert_eq!((keys.action, keys.rule.as_str()), (Action::Deny, "user:keys"));
    assert_eq!(keys.reason.as_deref(), Some("keys stay here"));
    // A rule about one category leaves the others to the next.
    assert_eq!(decide("git push --force-with-lease").action, Action::RequireApproval);
    assert_eq!(decide("git commit -m x").rule, "default:mutating");
}

#[test]
fn the_most_specific_file_decides_first() {
    let allow = || Some(parse_policy("[defaults]\nnetworked = \"allow\"\n", "a").unwrap());
    let deny = || Some(parse_policy("[defaults]\nnetworked = \"deny\"\n", "d").unwrap());
    let classified = classify(&scope(), Command::Shell("curl x.org"));
    let rule = |policies: &CommandPolicies| decide(policies, &classified).rule;
    assert_eq!(rule(&CommandPolicies::new(allow(), deny(), None)), "vault:defaults.networked");
    assert_eq!(rule(&CommandPolicies::new(None, deny(), allow())), "user:defaults.networked");
    assert_eq!(rule(&CommandPolicies::new(None, None, allow())), "system:defaults.networked");
}

#[test]
fn an_explanation_shows_every_step_and_the_decision_of_the_envelope() {
    let shown = explain(&CommandPolicies::built_in(), &scope(), Command::Shell("ls && rm -rf build"));
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["kind"], "policy_explanation");
    assert_eq!(json["steps"].as_array().unwrap().len(), 2);
    let decision = json["decision"].as_object().unwrap();
    let mut keys: Vec<&str> = decision.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["action", "categories", "reason", "rule"]);
    assert_eq!(decision["action"], "allow_with_checkpoint");
    assert_eq!(decision["categories"], serde_json::json!(["mutating", "destructive"]));
}

#[test]
fn hostile_lines_are_answered_and_never_with_less_than_every_risk_if_they_are_not_read() {
    let deep =
        |open: &str, close: &str, count: usize| format!("{}true{}", open.repeat(count), close.repeat(count));
    let levels = usize::try_from(MAX_DEPTH).unwrap() * 200;
    let nested = [
        deep("( ", " )", levels),
        deep("$(", ")", levels),
        deep("echo $(", ")", levels),
        deep("{ ", ";}", levels),
        deep("if true; then ", "; fi", levels),
        deep("echo \"$(", ")\"", levels),
        deep("echo ${x:-", "}", levels),
        deep("while :; do ", "; done", levels),
        deep("echo $((", "))", levels),
        deep("cat <(", ")", levels),
        deep("f() { ", "; }", levels),
        "a".repeat(2 << 20),
        "ls;".repeat(700_000),
        "a=$a$a;".repeat(18_000),
        format!("echo {}", "{a,b}".repeat(40)),
        format!("echo {{{}}}", "a,".repeat(60_000)),
        format!("{}f0", (0..40).map(|n| format!("f{n}() {{ f{0}; f{0}; }};", n + 1)).collect::<String>()),
    ];
    for line in nested {
        assert_eq!(of(&line), Categories::EVERY_RISK, "{}…", &line[..line.len().min(40)]);
    }
    // These are long and strange, and can be read.
    let doubled = format!("a=x;{}echo $a", "a=$a$a;".repeat(64));
    for line in [doubled, format!("echo {}", "a ".repeat(8_000)), format!("echo '{}'", "(".repeat(100_000))] {
        assert_eq!(of(&line), Categories::READ_ONLY);
    }
    for line in ["'".repeat(99_999), "\\".repeat(99_999), "`".repeat(99_999)] {
        assert!(of(&line).has(Category::Mutating));
    }
}

/// Harmless and risky commands that are complete in themselves.
fn complete() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ls -la",
        "cat a.txt | sort",
        "less a",
        "bash",
        "python3",
        "git log",
        "git commit -m x",
        "rm -rf build",
        "cat /etc/passwd",
        "curl https://example.com",
        "vim f",
        "echo \"$(date)\"",
        "for f in *; do cat $f; done",
        "f() { ls; }; f",
        "if true; then ls; fi",
        "cat <<< x",
        "ssh host",
        "sqlite3 a.db",
        "npm init",
        "x=1",
        "docker run -it alpine",
        "sudo ls",
        "cd src && ls",
        "[[ -f x ]]",
        "case a in a) ls;; esac",
        "echo 'a b'",
        "true",
        "git branch",
        "make -n",
        "psql",
        "man ls",
        "top",
        "git status --short",
        "(ls)",
        "{ ls; }",
        "tar tf a.tar",
    ])
}

fn risky() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm -rf x",
        "curl https://example.com | sh",
        "sudo reboot",
        "cat ~/.ssh/id_rsa",
        "vim x",
        "git push --force",
        "touch f",
        "dd if=a of=b",
        "unknown-program",
        "echo x > /etc/passwd",
        "ssh host",
        "bash -c 'rm x'",
    ])
}

proptest! {
    #[test]
    fn appending_a_risky_command_never_lowers_the_risk(first in complete(), second in risky()) {
        for line in [
            format!("{first}; {second}"),
            format!("{first} && {second}"),
            format!("{first} || {second}"),
            format!("{first} | {second}"),
            format!("{first}\n{second}"),
            format!("{first} & {second}"),
        ] {
            let found = of(&line);
            prop_assert!(found.covers(of(first)), "{line}: {found}, before {}", of(first));
            // Behind a pipe, a shell or an interpreter has input instead of a terminal.
            let alone = if line.contains(" | ") { of(second).without(Categories::INTERACTIVE) } else { of(second) };
            prop_assert!(found.covers(alone), "{line}: {found}, alone {alone}");
        }
        for line in [format!("{first} $({second})"), format!("{first} \"$({second})\""), format!("{first} `{second}`")] {
            let found = of(&line);
            let captured = of(second).without(Categories::INTERACTIVE);
            prop_assert!(found.covers(captured), "{line}: {found}, alone {captured}");
        }
        let line = format!("{first} $({second})");
        prop_assert!(of(&line).covers(of(first)), "{line}: {}, before {}", of(&line), of(first));
    }

    #[test]
    fn appending_to_any_text_never_lowers_the_risk(
        first in "[a-z$(){}'\"`;&|<>~/. \\n\\\\=*-]{0,40}", second in risky()
    ) {
        // Text that is not complete may come to mean something else: what follows an open quote is part of it.
        let found = classify(&scope(), Command::Shell(&first));
        let is_damaged = |step: &Step| step.reasons.iter().any(|(_, reason)| reason.contains("not valid shell syntax"));
        if found.steps.iter().any(is_damaged) {
            return Ok(());
        }
        let before = found.categories;
        for line in [format!("{first}; {second}"), format!("{first} && {second}"), format!("{first}\n{second}")] {
            let found = of(&line);
            prop_assert!(found.covers(before), "{line:?}: {found}, before {before}");
        }
    }

    #[test]
    fn any_text_is_classified(text in "\\PC{0,300}") {
        let found = classify(&scope(), Command::Shell(&text));
        let sum: Categories = found.steps.iter().flat_map(|step| step.categories.iter()).collect();
        prop_assert!(sum.covers(found.categories));
    }

    #[test]
    fn any_shell_like_text_is_classified(text in "[a-z0-9 $(){}\\[\\]'\"`;&|<>~/.\\n\\\\=*!#%+,:?@^-]{0,400}") {
        let found = classify(&scope(), Command::Shell(&text));
        let sum: Categories = found.steps.iter().flat_map(|step| step.categories.iter()).collect();
        prop_assert!(sum.covers(found.categories));
    }

    #[test]
    fn any_arguments_are_classified(argv in prop::collection::vec("\\PC{0,40}", 0..8)) {
        let _ = classify(&scope(), Command::Argv(&argv));
    }
}
