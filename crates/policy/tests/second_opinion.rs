//! A second opinion about shell grammar: what tree-sitter-bash takes for a command is a command for us.
#![expect(clippy::unwrap_used, reason = "a helper of a test")]

use std::fs;
use std::path::Path;

use agentiso_policy::command::{Command, Scope, classify};
use tree_sitter::{Node, Parser};

/// The lines of all corpora.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for dir in ["corpus", "held_out"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
        for entry in fs::read_dir(dir).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let commands = text.lines().filter_map(|line| line.split_once('\t'));
            lines.extend(commands.map(|(_, command)| command.replace('␤', "\n").replace('␉', "\t")));
        }
    }
    lines
}

/// The names of commands that are plain words: anything else is expanded by the shell first.
fn names<'t>(node: Node<'_>, text: &'t str, found: &mut Vec<&'t str>) {
    if node.kind() == "command_name" {
        let name = &text[node.byte_range()];
        let is_plain = name.chars().all(|letter| letter.is_alphanumeric() || "-_./+".contains(letter));
        if is_plain {
            found.push(name);
        }
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        names(child, text, found);
    }
}

#[test]
fn every_command_that_tree_sitter_finds_is_found() {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).unwrap();
    let scope = Scope::new("/workspace").with_home("/home/user");
    let (mut commands, mut missed) = (0u32, 0u32);
    for line in lines() {
        let tree = parser.parse(&line, None).unwrap();
        if tree.root_node().has_error() {
            continue;
        }
        let mut expected = Vec::new();
        names(tree.root_node(), &line, &mut expected);
        let classified = classify(&scope, Command::Shell(&line));
        // Calls of functions have no step of their own, and `coproc` is a keyword for us.
        let is_own = |name: &str| {
            name == "coproc"
                || line.contains(&format!("{name}()"))
                || line.contains(&format!("function {name}"))
        };
        for name in expected.into_iter().filter(|name| !is_own(name)) {
            commands += 1;
            let base = name.rsplit('/').next().unwrap();
            let is_found = classified.steps.iter().any(|step| {
                step.program.as_deref() == Some(base)
                    || step.command.split([' ', '/']).any(|word| word == base)
            });
            if !is_found {
                missed += 1;
                println!("{base}: {}", line.replace('\n', "␤"));
            }
        }
    }
    println!("{commands} commands, {missed} missed");
    assert!(commands > 6000, "{commands} commands");
    assert!(f64::from(missed) <= f64::from(commands) * 0.005, "{missed} of {commands} are missed");
}
