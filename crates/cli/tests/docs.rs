//! Checks the reference pages against the code. `UPDATE_DOCS=1` rewrites the generated ones.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use agentiso_cli::args::Cli;
use agentiso_config::Config;
use agentiso_core::Code;
use clap::CommandFactory;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn configuration() -> String {
    format!(
        "# Configuration\n\n\
         agentiso works without a configuration file. `agentiso init` writes the one below, with every key commented\n\
         out. These locations are searched in order:\n\n\
         1. `--config FILE`\n\
         2. `$AGENTISO_CONFIG`\n\
         3. `$AGENTISO_HOME/config.toml`, if `AGENTISO_HOME` is set\n\
         4. `$XDG_CONFIG_HOME/agentiso/config.toml` (`~/.config/agentiso/config.toml`)\n\
         5. `/etc/agentiso/config.toml`\n\n\
         Only the first file that exists is used. A file named by the first two must exist. An unknown key is an error that\n\
         names the line and the most similar key.\n\n\
         ```toml\n{}```\n\n\
         ## Where data is stored\n\n\
         | what | ordinary user | root | with `AGENTISO_HOME` |\n\
         |---|---|---|---|\n\
         | images, kernel, templates, machines | `$XDG_DATA_HOME/agentiso` (`~/.local/share/agentiso`) | `/var/lib/agentiso` | `$AGENTISO_HOME` |\n\
         | sockets | `$XDG_RUNTIME_DIR/agentiso`, else `run` in the data directory | `/run/agentiso` | `$AGENTISO_HOME/run` |\n\n\
         A second `AGENTISO_HOME` is a separate installation. When agentiso runs as root and QEMU cannot be isolated, `vm.user` must\n\
         be able to enter the data directory and every directory above it; `agentiso check` names a directory that it cannot enter.\n",
        Config::commented()
    )
}

#[test]
fn the_configuration_page_is_up_to_date() {
    let path = page("configuration.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, configuration()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(
        written,
        configuration(),
        "run the tests once with UPDATE_DOCS=1 to rewrite {}",
        path.display()
    );
}

#[test]
fn the_errors_page_lists_every_code_once() {
    let written = fs::read_to_string(page("errors.md")).unwrap();
    let listed: Vec<&str> = written
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|word| word.parse::<u8>().is_err())
        .collect();
    let codes: Vec<&str> = Code::all().iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, codes);
}

/// The code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A command with all its subcommands and global flags.
fn cli() -> clap::Command {
    let mut cli = Cli::command();
    cli.build();
    cli
}

/// The commands named in the first column of a table, as words: `["jobs", "logs"]`.
///
/// If the first command of a row is a subcommand (`jobs start`), the others of the row belong to the same command.
fn listed_commands(table: &str) -> Vec<Vec<String>> {
    let mut listed = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let column = row.trim_start_matches('|').split('|').next().unwrap_or_default();
        let mut parent = Vec::new();
        for span in spans(column) {
            let words = span.trim_start_matches("agentiso ").split(' ');
            let words = words.take_while(|word| word.starts_with(char::is_lowercase)).map(str::to_owned);
            let path: Vec<String> = parent.iter().cloned().chain(words).collect();
            if parent.is_empty() {
                parent = path[..path.len() - 1].to_vec();
            }
            listed.push(path);
        }
    }
    listed
}

/// Fails unless there is such a command.
fn assert_exists(cli: &clap::Command, words: &[String]) {
    let found = words.iter().try_fold(cli, |command, word| command.find_subcommand(word));
    assert!(found.is_some(), "there is no command {words:?}");
}

#[test]
fn the_command_line_page_lists_every_command_and_no_other() {
    let page = fs::read_to_string(page("command-line.md")).unwrap();
    let table = page.split("\n\n").find(|part| part.starts_with("| command |")).unwrap();
    let cli = cli();
    let listed = listed_commands(table);
    listed.iter().for_each(|words| assert_exists(&cli, words));
    let listed: BTreeSet<&str> = listed.iter().map(|words| words[0].as_str()).collect();
    let visible = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let commands: BTreeSet<&str> =
        visible.map(clap::Command::get_name).filter(|name| *name != "help").collect();
    assert_eq!(listed, commands);
}

#[test]
fn the_command_table_of_the_readme_names_only_commands_that_exist() {
    let readme = fs::read_to_string(page("../README.md")).unwrap();
    let table = readme.split("\n\n").find(|part| part.starts_with("| command |")).unwrap();
    let listed = listed_commands(table);
    assert!(listed.len() > 30, "only {} commands were found", listed.len());
    let cli = cli();
    listed.iter().for_each(|words| assert_exists(&cli, words));
}

#[test]
fn every_flag_on_the_command_line_page_exists() {
    fn flags(command: &clap::Command, all: &mut BTreeSet<String>) {
        all.extend(
            command.get_arguments().filter_map(|flag| flag.get_long()).map(|name| format!("--{name}")),
        );
        command.get_subcommands().for_each(|command| flags(command, all));
    }
    let mut known = BTreeSet::new();
    flags(&cli(), &mut known);
    let page = fs::read_to_string(page("command-line.md")).unwrap();
    let prose = page.split("```").step_by(2).collect::<String>();
    let named = spans(&prose)
        .flat_map(|span| span.split(' '))
        .filter(|word| word.len() > 2 && word.starts_with("--"));
    let unknown: Vec<&str> = named.filter(|flag| !known.contains(*flag)).collect();
    assert!(unknown.is_empty(), "unknown flags: {unknown:?}");
}

/// The names of all functions in the source files below a directory.
fn functions(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let found = text.lines().filter_map(|line| line.split("fn ").nth(1));
            names.extend(found.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
        }
    }
}

#[test]
fn tests_named_in_the_documentation_and_the_matrix_exist() {
    let top = page("..");
    let mut known = BTreeSet::new();
    for dir in ["crates", "guest", "testing"] {
        functions(&top.join(dir), &mut known);
    }
    let is_test = |name: &&str| {
        name.matches('_').count() > 2
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_…".contains(c))
    };
    let exists = |name: &str| match name.strip_suffix('…') {
        Some(beginning) => known.iter().any(|known| known.starts_with(beginning)),
        None => known.contains(name),
    };
    let pages = ["security.md", "fork-correctness.md"].map(|name| fs::read_to_string(page(name)).unwrap());
    let matrix = fs::read_to_string(top.join("scripts/nested/tests")).unwrap();
    let rows = matrix.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').nth(1));
    let named = pages.iter().flat_map(|page| spans(page)).filter(is_test);
    let named: Vec<&str> = named.chain(rows.filter_map(|test| test.rsplit("::").next())).collect();
    assert!(named.len() > 80, "only {} tests were found", named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no test has these names: {missing:#?}");
}
