//! Lines of the corpora with random damage: they are classified, and no line becomes less risky when a command follows.
#![expect(clippy::unwrap_used, reason = "a helper of a test")]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use agentiso_policy::command::{Categories, Command, Scope, Step, classify};
use proptest::prelude::*;

/// The lines of all corpora.
static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
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
});

const PIECES: &[&str] = &[
    "'", "\"", "`", "$(", ")", "{", "}", "|", "&&", ";", "\n", "\\", "<<E\n", "<(", ">", "$", "${x:-", "((",
    "[[", "#", " ", "~", "\0", "é", "eval ", "sh -c ", "xargs ", "x=",
];

/// What is done to a line.
#[derive(Clone, Debug)]
enum Damage {
    Insert(prop::sample::Index, &'static str),
    Remove(prop::sample::Index, usize),
    Double(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Join(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), prop::sample::select(PIECES)).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (at(), 1..8usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        (at(), 1..16usize).prop_map(|(at, length)| Damage::Double(at, length)),
        at().prop_map(Damage::Cut),
        at().prop_map(Damage::Join),
    ]
}

fn line() -> impl Strategy<Value = String> {
    (any::<prop::sample::Index>(), prop::collection::vec(damage(), 0..4)).prop_map(|(which, damages)| {
        let mut letters: Vec<char> = which.get(&LINES).chars().collect();
        for damage in damages {
            let count = letters.len();
            match damage {
                Damage::Insert(at, piece) => {
                    let at = at.index(count + 1);
                    letters.splice(at..at, piece.chars());
                }
                Damage::Remove(at, length) => {
                    let at = at.index(count + 1);
                    letters.drain(at..(at + length).min(count));
                }
                Damage::Double(at, length) => {
                    let at = at.index(count + 1);
                    let copied = letters[at..(at + length).min(count)].to_vec();
                    letters.splice(at..at, copied);
                }
                Damage::Cut(at) => letters.truncate(at.index(count + 1)),
                Damage::Join(which) => letters.extend(which.get(&LINES).chars()),
            }
        }
        letters.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_damaged_line_is_not_less_risky_when_a_command_follows(
        line in line(),
        risky in prop::sample::select(vec!["rm -rf x", "curl https://x.org", "sudo reboot", "touch f", "top"]),
    ) {
        let scope = Scope::new("/workspace").with_home("/home/user");
        let of = |line: &str| classify(&scope, Command::Shell(line));
        let before = of(&line);
        let sum: Categories = before.steps.iter().flat_map(|step| step.categories.iter()).collect();
        prop_assert!(sum.covers(before.categories), "a category has no step");
        // What follows an open quote becomes a part of it, so only complete lines can be continued.
        let is_damaged = |step: &Step| step.reasons.iter().any(|(_, reason)| reason.contains("not valid shell syntax"));
        if before.steps.iter().any(is_damaged) {
            return Ok(());
        }
        for joint in ["; ", " && ", " || ", "\n"] {
            let after = of(&format!("{line}{joint}{risky}")).categories;
            prop_assert!(after.covers(before.categories), "{line:?}{joint:?}{risky}: {after}, before {}", before.categories);
        }
        // Behind a comment or an open here-document nothing else is read on the same line.
        let after = of(&format!("{risky}\n{line}")).categories;
        prop_assert!(after.covers(of(risky).categories), "{risky} before {line:?}: {after}");
    }
}
