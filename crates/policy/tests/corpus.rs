//! Precision and recall of the classification on labelled commands.
//!
//! The labels say what a command means, not what the classifier says. `cargo nextest run -p agentiso-policy --test corpus
//! --no-capture` prints the figures and every disagreement.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that prints its figures")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use agentiso_policy::command::{Categories, Category, Command, Scope, classify};

struct Labelled {
    file: String,
    command: String,
    expected: Categories,
    found: Categories,
}

const RISKS: [Category; 5] = [
    Category::Mutating,
    Category::Destructive,
    Category::Networked,
    Category::HostEscapeRisk,
    Category::Interactive,
];

fn read(dir: &str) -> Vec<Labelled> {
    let scope = Scope::new("/workspace").with_home("/home/user");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut commands = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (labels, command) = line.split_once('\t').unwrap();
            let known = |name: &str| Category::ALL.into_iter().find(|category| category.as_str() == name);
            let expected: Categories = labels.split(',').map(|name| known(name).unwrap()).collect();
            let command = command.replace('␤', "\n").replace('␉', "\t");
            let found = classify(&scope, Command::Shell(&command)).categories;
            let file = file.file_stem().unwrap().to_string_lossy().into_owned();
            commands.push(Labelled { file, command, expected, found });
        }
    }
    commands
}

fn share(part: usize, whole: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    if whole == 0 { 1.0 } else { number(part) / number(whole) }
}

/// Prints the figures and returns the recall of risk and the share of false alarms on `read_only`.
fn report(commands: &[Labelled]) -> (f64, f64) {
    println!("{} commands", commands.len());
    let (mut wanted, mut met) = (0, 0);
    for category in Category::ALL {
        let expected = commands.iter().filter(|one| one.expected.has(category)).count();
        let found = commands.iter().filter(|one| one.found.has(category)).count();
        let both =
            commands.iter().filter(|one| one.expected.has(category) && one.found.has(category)).count();
        println!(
            "{category:>17}: labelled {expected:4}  precision {:.4}  recall {:.4}",
            share(both, found),
            share(both, expected)
        );
        if category != Category::ReadOnly {
            wanted += expected;
            met += both;
        }
    }
    let harmless: Vec<_> = commands.iter().filter(|one| one.expected.is_read_only()).collect();
    let alarms = harmless.iter().filter(|one| !one.found.is_read_only()).count();
    let (recall, alarms) = (share(met, wanted), share(alarms, harmless.len()));
    println!("recall of risk {recall:.4}, false alarms on read_only {alarms:.4}");
    for one in commands.iter().filter(|one| one.expected != one.found) {
        let kind = if one.found.covers(one.expected) { "more" } else { "LESS" };
        println!(
            "{kind}: labelled [{}], found [{}]: {}",
            one.expected,
            one.found,
            one.command.replace('\n', "␤")
        );
    }
    (recall, alarms)
}

#[test]
fn risk_is_found_and_harmless_commands_raise_few_alarms() {
    let commands = read("corpus");
    assert!(commands.len() >= 1500, "{} commands", commands.len());
    let different: BTreeSet<_> = commands.iter().map(|one| &one.command).collect();
    assert_eq!(different.len(), commands.len(), "a command is listed twice");
    let (recall, alarms) = report(&commands);
    assert!(recall >= 0.995, "recall of risk {recall:.4}");
    assert!(alarms <= 0.02, "false alarms {alarms:.4}");
    for category in RISKS {
        let labelled = commands.iter().filter(|one| one.expected.has(category));
        let missed = labelled.clone().filter(|one| !one.found.has(category)).count();
        let recall = 1.0 - share(missed, labelled.count());
        assert!(recall >= 0.995, "recall of {category} {recall:.4}");
    }
}

#[test]
fn commands_that_were_written_after_the_tables_are_classified_as_well() {
    let mut commands = read("held_out");
    assert!(commands.len() >= 4000, "{} commands", commands.len());
    let files: BTreeSet<_> = commands.iter().map(|one| one.file.clone()).collect();
    for file in files {
        let (own, others): (Vec<_>, Vec<_>) = commands.into_iter().partition(|one| one.file == file);
        commands = others;
        println!("\n{file}:");
        let (recall, alarms) = report(&own);
        assert!(recall >= 0.995, "{file}: recall of risk {recall:.4}");
        assert!(alarms <= 0.02, "{file}: false alarms {alarms:.4}");
    }
}
