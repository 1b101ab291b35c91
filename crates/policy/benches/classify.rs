//! Time per line of the classification: `cargo bench -p agentiso-policy`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use agentiso_policy::command::{Command, CommandPolicies, Scope, classify, decide};

const ROUNDS: u32 = 20;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let scope = Scope::new("/workspace").with_home("/home/user");
    let started = Instant::now();
    classify(&scope, Command::Shell("true"));
    println!("first line, which reads the tables: {:?}", started.elapsed());

    let lines = corpus();
    let mut times: Vec<Duration> = Vec::new();
    for line in &lines {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            black_box(classify(&scope, Command::Shell(black_box(line))));
        }
        times.push(started.elapsed() / ROUNDS);
    }
    times.sort();
    let sum: Duration = times.iter().sum();
    let count = u32::try_from(times.len()).unwrap();
    println!(
        "{count} lines of the corpus: mean {:?}, median {:?}, 99th percentile {:?}, longest {:?}",
        sum / count,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1]
    );

    let policies = CommandPolicies::built_in();
    let classified = classify(&scope, Command::Shell("git status && cargo build 2>&1 | tail -5"));
    let started = Instant::now();
    for _ in 0..10_000 {
        black_box(decide(&policies, black_box(&classified)));
    }
    println!("decision: {:?}", started.elapsed() / 10_000);

    for (name, line) in [
        ("2 MiB of one word", "a".repeat(2 << 20)),
        ("120 KiB of commands", "ls -la;".repeat(17_000)),
        ("120 KiB of words", format!("echo {}", "word ".repeat(24_000))),
        ("120 KiB of programs", format!("python3 -c '{}=1';", "a,".repeat(2000) + "b").repeat(29)),
        ("40,000 levels", "$(".repeat(40_000)),
    ] {
        let started = Instant::now();
        black_box(classify(&scope, Command::Shell(&line)));
        println!("{name}: {:?}", started.elapsed());
    }
}

fn corpus() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let commands = text.lines().filter_map(|line| line.split_once('\t'));
        lines.extend(commands.map(|(_, command)| command.replace('␤', "\n").replace('␉', "\t")));
    }
    lines
}
