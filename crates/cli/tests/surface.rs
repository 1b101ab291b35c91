//! Snapshots of what people read: the help of every command, and messages about common mistakes. Needs no machine.
//!
//! Snapshots are in `snapshots/`. After an intended change, `INSTA_UPDATE=always cargo test -p agentiso-cli --test
//! surface` rewrites them; review the diff before you commit it.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};

use agentiso_cli::args::Cli;
use clap::CommandFactory;

/// Appends the help of a command and of all its subcommands.
fn help(command: &clap::Command, path: &str, text: &mut String) {
    let shown = command.clone().term_width(100).render_long_help();
    writeln!(text, "$ {path} --help\n{shown}").unwrap();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        help(verb, &format!("{path} {}", verb.get_name()), text);
    }
}

/// Removes the global flags, which the top-level help describes.
fn without_globals(command: clap::Command, globals: &'static [&'static str]) -> clap::Command {
    let hide = |arg: clap::Arg| {
        let is_global = globals.contains(&arg.get_id().as_str());
        arg.hide(is_global)
    };
    command.mut_args(hide).mut_subcommands(|verb| without_globals(verb, globals))
}

#[test]
fn the_help_of_every_command_matches_its_snapshot() {
    let mut cli = Cli::command();
    cli.build();
    let shown = cli.clone().term_width(100).render_long_help().to_string();
    insta::assert_snapshot!("help", shown);
    let cli = without_globals(cli, &["json", "quiet", "config", "help"]);
    for verb in cli.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        let mut text = String::new();
        help(verb, &format!("agentiso {}", verb.get_name()), &mut text);
        insta::assert_snapshot!(format!("help_{}", verb.get_name()), text);
    }
}

#[test]
fn the_help_of_avfs_matches_its_snapshot() {
    let mut cli = agentiso_cli::avfs::Cli::command();
    cli.build();
    let mut text = format!("{}\n", cli.clone().term_width(100).render_long_help());
    let cli = without_globals(cli, &["json", "quiet", "config", "help", "vault"]);
    for verb in cli.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        help(verb, &format!("avfs {}", verb.get_name()), &mut text);
    }
    insta::assert_snapshot!("help_avfs", text);
}

/// An empty installation. Its daemon is stopped on drop.
struct Home {
    directory: tempfile::TempDir,
    said: String,
}

impl Home {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), said: String::new() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
        command.args(words).env_clear().stdin(Stdio::null());
        command
            .env("AGENTISO_HOME", self.directory.path())
            .env("PATH", "/usr/bin:/bin")
            .env("COLUMNS", "100");
        command
    }

    /// Runs agentiso and records its output.
    fn say(&mut self, words: &[&str]) {
        let output = self.command(words).output().unwrap();
        writeln!(self.said, "$ agentiso {}", words.join(" ")).unwrap();
        let home = self.directory.path().to_str().unwrap();
        for stream in [output.stdout, output.stderr] {
            self.said.push_str(&String::from_utf8(stream).unwrap().replace(home, "HOME"));
        }
        writeln!(self.said, "[exit code {}]\n", output.status.code().unwrap()).unwrap();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Fails if no daemon is running.
        let _ = self.command(&["daemon", "stop"]).output();
    }
}

#[test]
fn invalid_command_lines_get_helpful_errors() {
    let mut home = Home::new();
    for words in [
        &["lss"][..],
        &["exec"],
        &["exec", "web"],
        &["exec", "--env", "=x", "web", "true"],
        &["exec", "--tty", "-n", "web", "sh"],
        &["--json", "exec", "--tty", "web", "sh"],
        &["exec", "--timeout", "soon", "web", "true"],
        &["create", "--memory", "lots"],
        &["create", "--vcpus", "none"],
        &["create", "--label", "team"],
        &["create", "--forward", "web"],
        &["create", "--ttl", "-1"],
        &["create", "extra"],
        &["ls", "--state", "asleep"],
        &["stop"],
        &["stop", "web", "--all"],
        &["rm"],
        &["update", "web"],
        &["fork", "web", "--count", "0"],
        &["fork", "web", "--count", "101"],
        &["snapshot", "take", "web", "x"],
        &["snapshot", "create", "web"],
        &["forward", "add", "web", "99999"],
        &["grow", "web", "small"],
        &["jobs", "kill", "web", "one"],
        &["cp", "here"],
        &["cp", "/nowhere", "/elsewhere"],
        &["image", "pull"],
        &["serve", "--tools", "everything"],
        &["serve", "--tools", "core,snapshot_dif"],
        &["completions", "csh"],
        &["init", "--pool-size", "5"],
        &["bench", "--rounds", "many"],
        &["--config", "/nowhere.toml", "ls"],
        &["--json", "create", "--memory", "lots"],
        &["--json", "snapshot", "create", "web"],
    ] {
        home.say(words);
    }
    insta::assert_snapshot!("wrong_words", home.said);
}

#[test]
fn missing_objects_are_named_with_a_remedy() {
    let mut home = Home::new();
    for words in [
        &["image", "ls"][..],
        &["image", "info", "debian"],
        &["image", "rm", "debian"],
        &["image", "build", "debain"],
        &["image", "import", "/nowhere.tar"],
        &["image", "kernel", "ls"],
        &["daemon", "status"],
        &["daemon", "stop"],
        &["run", "true"],
        &["ls"],
        &["create", "--name", "web"],
        &["create", "--memory", "0"],
        &["create", "--name", "0192f0c1"],
        &["info", "web"],
        &["start", "web"],
        &["stop", "web"],
        &["suspend", "web"],
        &["resume", "web"],
        &["rm", "web"],
        &["prune", "--force"],
        &["update", "web", "--memory", "2G"],
        &["exec", "web", "true"],
        &["shell", "web"],
        &["jobs", "ls", "web"],
        &["cp", "web:/etc/motd", "."],
        &["read", "web", "/etc/motd"],
        &["write", "web", "/etc/motd"],
        &["edit", "web", "/etc/motd", "a", "b"],
        &["snapshot", "ls", "web"],
        &["fork", "web"],
        &["rename", "web", "db"],
        &["grow", "web", "20G"],
        &["label", "web"],
        &["env", "web"],
        &["forward", "ls", "web"],
        &["logs", "web"],
        &["stats", "--once"],
        &["recover"],
    ] {
        home.say(words);
    }
    insta::assert_snapshot!("not_there", home.said);
}

#[test]
fn an_unknown_configuration_key_gets_a_suggestion() {
    let mut home = Home::new();
    fs::write(home.directory.path().join("config.toml"), "[defaults]\nmemry_mb = 512\n").unwrap();
    home.say(&["ls"]);
    insta::assert_snapshot!("wrong_key", home.said);
}
