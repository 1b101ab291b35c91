//! Every command line of ours that README, the pages of documentation or the help show is one that agentiso takes.
//!
//! What the `console` blocks show is also run, on real machines: see `vm/examples.rs`.

use std::fs;
use std::path::Path;

use agentiso_cli::args::{Cli, modern};
use clap::{CommandFactory, Parser};

/// What ends a command of a shell line.
const ENDS: [&str; 6] = ["|", ";", "&&", "||", ">", "<"];

/// The words of every agentiso command in a shell line.
fn commands(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let parts = words.split(|(word, quoted)| !quoted && ENDS.contains(&word.as_str()));
    let commands = parts.filter_map(|part| {
        let at = part.iter().position(|(word, quoted)| !quoted && word == "agentiso")?;
        let plain = ["sudo", "do", "source"];
        let before = part[..at].iter().all(|(word, _)| plain.contains(&word.as_str()));
        before.then(|| part[at..].iter().map(|(word, _)| word.clone()).collect())
    });
    commands.collect()
}

/// Words as a shell splits them, and whether they were quoted. A `#` begins a comment.
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

/// Lines of code blocks in these languages.
fn code(page: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) => inside = matches!(language, "sh" | "console"),
            None if inside => lines.push(line.trim_start_matches("$ ")),
            None => {}
        }
    }
    lines
}

fn is_taken(words: &[String], place: &str) {
    let line = words.join(" ");
    let parsed = Cli::try_parse_from(modern(words.iter().map(Into::into).collect()));
    if let Err(error) = parsed {
        let help = clap::error::ErrorKind::DisplayHelp;
        assert!(error.kind() == help, "{place}: {line}\n{error}");
    }
}

#[test]
fn every_line_of_the_documentation_is_taken() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![top.join("README.md"), top.join("CONTRIBUTING.md")];
    pages.extend(fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut seen = 0;
    for page in pages.into_iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for line in code(&text) {
            for words in commands(line) {
                is_taken(&words, &page.display().to_string());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} lines were found");
}

#[test]
fn every_example_of_the_help_is_taken() {
    fn check(command: &clap::Command, seen: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.split("Example").nth(1).unwrap_or_default();
        for line in examples.lines() {
            // Behind two spaces in a row stands what an example does.
            let line = line.trim_start();
            let line = line.split("   ").next().unwrap_or(line);
            for words in commands(line) {
                is_taken(&words, command.get_name());
                *seen += 1;
            }
        }
        command.get_subcommands().for_each(|verb| check(verb, seen));
    }
    let mut seen = 0;
    check(&Cli::command(), &mut seen);
    assert!(seen > 60, "only {seen} examples were found");
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    let split = |line: &str| commands(line);
    assert_eq!(split("tar c . | agentiso cp - web:/a  # b"), [["agentiso", "cp", "-", "web:/a"]]);
    assert_eq!(
        split("agentiso exec web sh -c 'a; b | c' > out"),
        [["agentiso", "exec", "web", "sh", "-c", "a; b | c"]]
    );
    assert_eq!(split("claude mcp add agentiso -- agentiso serve"), Vec::<Vec<String>>::new());
    assert_eq!(split("source <(agentiso completions bash)"), [["agentiso", "completions", "bash"]]);
}
