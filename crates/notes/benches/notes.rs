//! Search, write and move among 20,000 notes: `cargo bench -p agentiso-notes`.
//!
//! Everything is created below the target directory, about 300 MB, and removed at the end. Each figure is the median, with
//! the slowest run.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::fs;
use std::time::{Duration, Instant};

use agentiso_core::Secret;
use agentiso_notes::*;

const NOTES: usize = 20_000;
const WORDS: usize = 5000;
const BACKLINKS: usize = 200;

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    /// A word; some are much more frequent than others, as in a language.
    fn word(&mut self) -> String {
        let limit = 1 + self.below(WORDS);
        format!("word{}", self.below(limit))
    }
}

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = NotesConfig::new(base.path().join("notes"), base.path().join("state"));
    let bytes = fill(&config);
    println!("{NOTES} notes, {} MB", bytes / 1_000_000);
    let started = Instant::now();
    let notes = Notes::open(config.clone()).unwrap();
    println!("first open, all indexed     {:?}", started.elapsed());
    let started = Instant::now();
    drop(Notes::open(config).unwrap());
    println!("open, nothing changed       {:?}", started.elapsed());
    let view = notes.view(Scope::everything(), None);

    let mut numbers = Numbers(7);
    let search =
        |query: String| SearchNotes { query, regex: false, path_prefix: None, tag: None, max_results: None };
    measure("search, two words           ", 100, |_| {
        view.search(&search(format!("{} {}", numbers.word(), numbers.word()))).unwrap();
    });
    let mut numbers = Numbers(8);
    measure("search, a question          ", 100, |turn| {
        let query = format!("what is the {} of our nowhere{turn} {}?", numbers.word(), numbers.word());
        assert_eq!(view.search(&search(query)).unwrap().how, SearchHow::AnyWord);
    });
    measure("search, a tag and a word    ", 100, |turn| {
        view.search(&search(format!("tag:tag{} word1", turn % 50))).unwrap();
    });
    let plain = search("word4999 [a-z]+".to_owned());
    measure("search, a pattern           ", 5, |_| {
        view.search(&SearchNotes { regex: true, ..plain.clone() }).unwrap();
    });
    measure("read                        ", 200, |turn| {
        view.read(&ReadNote { path: path(turn * 37), format: NoteFormat::Markdown }).unwrap();
    });
    let write = |number: usize, content: String, mode| {
        let content = Secret::new(content);
        view.write(&WriteNote { path: path(number), content, mode, heading: None, if_match: None }).unwrap();
    };
    measure("write, new content          ", 200, |turn| {
        // None of those that link to the hub.
        write(turn * 100 + 50, format!("# New\n\nword{turn} and others\n"), WriteMode::Overwrite);
    });
    measure("write, the same note again  ", 200, |turn| write(1, format!("line {turn}"), WriteMode::Append));
    measure("backlinks                   ", 50, |_| {
        assert!(
            view.links(&ReadLinks { path: NotePath::parse("hub.md").unwrap() }).unwrap().backlinks.len()
                >= BACKLINKS
        );
    });
    let names = ["hub.md", "elsewhere/centre.md"].map(|name| NotePath::parse(name).unwrap());
    measure("move with 200 backlinks     ", 10, |turn| {
        let (path, new_path) = (names[turn % 2].clone(), names[(turn + 1) % 2].clone());
        let moved = view.relocate(&MoveNote { path, new_path, overwrite: false, if_match: None }).unwrap();
        assert_eq!(moved.rewritten.len(), BACKLINKS);
    });
    measure("graph                       ", 5, |_| {
        view.graph(&ReadGraph {}).unwrap();
    });
}

fn path(number: usize) -> NotePath {
    NotePath::parse(&name(number % NOTES)).unwrap()
}

fn name(number: usize) -> String {
    format!("folder{}/sub{}/note{number}.md", number % 40, number % 7)
}

fn fill(config: &NotesConfig) -> usize {
    let mut numbers = Numbers(1);
    let mut bytes = 0;
    for folder in 0..40 {
        for sub in 0..7 {
            fs::create_dir_all(config.path.join(format!("folder{folder}/sub{sub}"))).unwrap();
        }
    }
    fs::write(config.path.join("hub.md"), "# Hub\n").unwrap();
    for number in 0..NOTES {
        let mut text =
            format!("---\ntags: [tag{}]\nstatus: open\n---\n# Note {number}\n\n", numbers.below(50));
        for _ in 0..20 {
            for _ in 0..12 {
                text.push_str(&numbers.word());
                text.push(' ');
            }
            text.push('\n');
        }
        for _ in 0..4 {
            text.push_str(&format!("[[note{}]] ", numbers.below(NOTES)));
        }
        if number % (NOTES / BACKLINKS) == 3 {
            text.push_str("see [[hub|the hub]]\n");
        }
        bytes += text.len();
        fs::write(config.path.join(name(number)), text).unwrap();
    }
    bytes
}

fn measure(what: &str, count: usize, mut run: impl FnMut(usize)) {
    let mut times: Vec<Duration> = Vec::with_capacity(count);
    for turn in 0..count {
        let started = Instant::now();
        run(turn);
        times.push(started.elapsed());
    }
    times.sort();
    println!("{what}{:?}, slowest {:?}", times[count / 2], times[count - 1]);
}
