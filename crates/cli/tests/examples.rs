//! Parses every `agentiso` command line shown in README, the documentation and the help.
//!
//! Lines in `console` blocks also run on real machines: see `vm/examples.rs`.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fs;
use std::path::Path;

use agentiso_cli::args::{Cli, modern};
use clap::{CommandFactory, Parser};

/// Why lines in `sh` blocks cannot run in a test: a string that the line contains, and the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("scripts/", "the scripts have their own tests, and some run for hours"),
    ("avfs ", "needs no machine; crates/cli/tests/vaults has the tests"),
    ("cargo ", "builds agentiso itself"),
    ("sudo ", "needs root and changes the host"),
    ("agentiso image kernel ", "compiles a kernel, which takes half an hour"),
    ("agentiso policy ", "needs no machine; crates/policy has the tests"),
    ("agentiso secret ", "reads a secret from a file; crates/engine/tests/rules has the tests"),
    ("claude ", "needs Claude Code"),
    ("goose ", "needs goose"),
    ("pip install ", "needs a package index"),
];

/// Languages of code blocks. Commands belong in `console` and `sh` blocks, where the tests find them.
const LANGUAGES: &[&str] = &["console", "sh", "json", "toml", "text", "python", ""];

/// Words that end a command in a shell line.
const ENDS: [&str; 6] = ["|", ";", "&&", "||", ">", "<"];

/// Returns the words of every command of a program in a shell line.
fn commands(line: &str, program: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let parts = words.split(|(word, quoted)| !quoted && ENDS.contains(&word.as_str()));
    let commands = parts.filter_map(|part| {
        let at = part.iter().position(|(word, quoted)| !quoted && word == program)?;
        let plain = ["sudo", "do", "source"];
        let before = part[..at].iter().all(|(word, _)| plain.contains(&word.as_str()));
        before.then(|| part[at..].iter().map(|(word, _)| word.clone()).collect())
    });
    commands.collect()
}

/// Splits a line into words as a shell does, with a flag for quoted ones. A `#` starts a comment.
fn words(line: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let (mut word, mut begun, mut quoted, mut quote) = (String::new(), false, false, None);
    for c in line.replace("<(", " ").replace([')', '('], " ").chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, begun, quoted) = (Some(c), true, true),
            (None, '#') if !begun => break,
            (None, c) if c.is_whitespace() || c == ';' => {
                if begun {
                    words.push((std::mem::take(&mut word), quoted));
                }
                if c == ';' {
                    words.push((c.to_string(), false));
                }
                (begun, quoted) = (false, false);
            }
            (None, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push((word, quoted));
    }
    words
}

/// Returns the lines of code blocks in one of these languages.
fn code<'a>(page: &'a str, languages: &[&str]) -> Vec<&'a str> {
    let (mut open, mut inside) = (false, false);
    let mut lines = Vec::new();
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) => (open, inside) = (!open, !open && languages.contains(&language)),
            None if inside => lines.push(line.trim_start_matches("$ ")),
            None => {}
        }
    }
    lines
}

/// The pages whose examples are checked, with their text.
fn pages() -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages =
        vec![top.join("README.md"), top.join("CONTRIBUTING.md"), top.join("sdk/python/README.md")];
    pages.extend(fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let pages = pages.into_iter().filter(|page| page.extension().is_some_and(|end| end == "md"));
    pages.map(|page| (page.display().to_string(), fs::read_to_string(&page).unwrap())).collect()
}

fn is_taken(words: &[String], place: &str) {
    let line = words.join(" ");
    let parsed = Cli::try_parse_from(modern(words.iter().map(Into::into).collect()));
    if let Err(error) = parsed {
        let help = clap::error::ErrorKind::DisplayHelp;
        assert!(error.kind() == help, "{place}: {line}\n{error}");
    }
}

fn is_taken_by_avfs(words: &[String], place: &str) {
    if let Err(error) = agentiso_cli::avfs::Cli::try_parse_from(words) {
        panic!("{place}: {}\n{error}", words.join(" "));
    }
}

#[test]
fn every_command_in_the_documentation_is_accepted() {
    let mut seen = 0;
    for (page, text) in pages() {
        for line in code(&text, &["sh", "console"]) {
            for words in commands(line, "agentiso") {
                is_taken(&words, &page);
                seen += 1;
            }
            for words in commands(line, "avfs") {
                is_taken_by_avfs(&words, &page);
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} lines were found");
}

#[test]
fn every_command_that_no_test_runs_has_a_reason() {
    for (page, text) in pages() {
        let lines = code(&text, &["sh"]).join("\n").replace("\\\n", " ").replace("|\n", "| ");
        for line in lines.lines() {
            let has_reason = NOT_RUN.iter().any(|(part, _)| line.contains(part));
            assert!(has_reason, "{page}: {line}\nuse a console block, so that vm/examples.rs runs it");
        }
    }
}

#[test]
fn every_console_block_is_run_on_a_real_machine() {
    let tests = include_str!("vm/examples.rs");
    for (page, text) in pages().iter().filter(|(_, text)| text.contains("```console")) {
        let name = Path::new(page).file_name().and_then(|name| name.to_str()).unwrap();
        let followed = [format!("\"docs/{name}\""), format!("\"{name}\"")];
        assert!(followed.iter().any(|path| tests.contains(path)), "vm/examples.rs does not follow {page}");
        let lines = code(text, &["console"]).len();
        assert!(lines > 0, "{page} has an empty console block");
    }
}

#[test]
fn code_blocks_have_known_languages_and_other_blocks_show_no_commands() {
    for (page, text) in pages() {
        let fences = text.lines().filter_map(|line| line.strip_prefix("```")).step_by(2);
        for language in fences {
            assert!(LANGUAGES.contains(&language), "{page}: unknown language {language:?}");
        }
        for line in code(&text, &["text", ""]) {
            assert!(
                !["agentiso ", "avfs "].iter().any(|program| line.trim_start().starts_with(program)),
                "{page}: use a console or sh block for: {line}"
            );
        }
    }
}

#[test]
fn every_example_in_the_help_is_accepted() {
    type IsTaken = fn(&[String], &str);
    fn check(command: &clap::Command, program: &str, is_taken: IsTaken, seen: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.split("Example").nth(1).unwrap_or_default();
        for line in examples.lines() {
            // Three spaces separate an example from its explanation.
            let line = line.trim_start();
            let line = line.split("   ").next().unwrap_or(line);
            for words in commands(line, program) {
                is_taken(&words, command.get_name());
                *seen += 1;
            }
        }
        command.get_subcommands().for_each(|verb| check(verb, program, is_taken, seen));
    }
    let (mut seen, mut of_avfs) = (0, 0);
    check(&Cli::command(), "agentiso", is_taken, &mut seen);
    assert!(seen > 60, "only {seen} examples were found");
    check(&agentiso_cli::avfs::Cli::command(), "avfs", is_taken_by_avfs, &mut of_avfs);
    assert!(of_avfs > 60, "only {of_avfs} examples of avfs were found");
}

#[test]
fn lines_are_split_like_in_a_shell() {
    let split = |line: &str| commands(line, "agentiso");
    assert_eq!(split("tar c . | agentiso cp - web:/a  # b"), [["agentiso", "cp", "-", "web:/a"]]);
    assert_eq!(
        split("agentiso exec web sh -c 'a; b | c' > out"),
        [["agentiso", "exec", "web", "sh", "-c", "a; b | c"]]
    );
    assert_eq!(split("claude mcp add agentiso -- agentiso serve"), Vec::<Vec<String>>::new());
    assert_eq!(split("source <(agentiso completions bash)"), [["agentiso", "completions", "bash"]]);
}
