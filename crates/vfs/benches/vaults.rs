//! Vaults of 100,000 files: `cargo bench -p agentiso-vfs`.
//!
//! Everything is created below the target directory, about 1.5 GB, and removed at the end. Each figure is the best and the
//! median of several runs.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agentiso_vfs::{
    ChangeOptions, CheckpointKind, Endpoint, FileOp, ForkNames, ForkVault, GrepQuery, ImportRequest,
    MergeVaults, Options, Restore, SaveCheckpoint, SearchQuery, StateRef, TreePath, Vaults,
};

const DIRECTORIES: usize = 1000;
const FILES: usize = 100;
const RUNS: usize = 15;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fill(&base.path().join("source"));
    let vaults = Vaults::open(&base.path().join("home"), Options::default()).unwrap();
    let root = TreePath::root();
    once("create", || vaults.create(&agentiso_vfs::CreateVault::new("v".parse().unwrap())).unwrap());
    let done = once("import of 100,000 files", || {
        vaults.import("v", &base.path().join("source"), &root, &ImportRequest::default()).unwrap()
    });
    println!("{:34} {} files, {} MB", "", done.totals.files, done.totals.bytes / 1_000_000);

    let mut number = 0;
    report("open", || drop(Vaults::open(&base.path().join("home"), Options::default()).unwrap()));
    let records = || fs::metadata(base.path().join("home/vaults.db-wal")).map_or(0, |file| file.len());
    let before = records();
    report("fork", || {
        number += 1;
        vaults.fork(&ForkVault::new("v", format!("fork{number}").parse().unwrap())).unwrap();
    });
    println!("{:34} {} bytes of log each", "", (records().saturating_sub(before)) / RUNS as u64);
    once("1000 forks", || {
        let names = ForkNames::Automatic(1000);
        vaults.fork(&ForkVault { names, ..ForkVault::new("v", "x".parse().unwrap()) }).unwrap()
    });
    report("change of 10 files", || {
        number += 1;
        touch(&vaults, "v", number);
    });
    report("checkpoint after 10 files", || {
        let request = SaveCheckpoint { kind: CheckpointKind::User, ..SaveCheckpoint::default() };
        vaults.save_checkpoint("v", &request).unwrap();
    });
    let saved = SaveCheckpoint { name: Some("base".to_owned()), ..SaveCheckpoint::default() };
    vaults.save_checkpoint("v", &saved).unwrap();
    let restore = Restore { state: StateRef::Checkpoint("base".to_owned()), ..Restore::default() };
    let mut times = Vec::new();
    for _ in 0..RUNS {
        number += 1;
        touch(&vaults, "v", number);
        let start = Instant::now();
        assert!(vaults.restore("v", &restore).unwrap().changed.is_changed);
        times.push(start.elapsed());
    }
    print("restore, 10 files differ", times);
    touch(&vaults, "v", number + 1);
    let (before, after) = (Endpoint::state("v", restore.state.clone()), Endpoint::now("v"));
    report("diff, 10 files differ", || {
        assert_eq!(vaults.diff(&before, &after, &ChangeOptions::default()).unwrap().total, 10);
    });
    touch(&vaults, "fork1", 4711);
    report("merge of 10 files, dry run", || {
        vaults.merge(&MergeVaults { dry_run: true, ..MergeVaults::new("fork1", "v") }).unwrap();
    });
    let file = TreePath::parse("part-00/dir-0/file-1.txt").unwrap();
    report("log of a file", || drop(vaults.log("v", &file, 50).unwrap()));
    report("undo", || drop(vaults.undo("v", 1).unwrap()));
    let view = vaults.view("v", &StateRef::Now).unwrap();
    once("grep, no match", || view.grep(&GrepQuery::new("no such line")).unwrap());
    once("search, first (indexes everything)", || vaults.search(&view, &SearchQuery::new("word17")).unwrap());
    touch(&vaults, "v", number + 3);
    let view = vaults.view("v", &StateRef::Now).unwrap();
    once("search, after a change", || vaults.search(&view, &SearchQuery::new("changed")).unwrap());
    report("search, one rare word", || drop(vaults.search(&view, &SearchQuery::new("changed")).unwrap()));
}

fn once<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what:34} {:?}", start.elapsed());
    result
}

fn report(what: &str, mut work: impl FnMut()) {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    print(what, (0..RUNS).map(time).collect());
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!("{what:34} best {:?}, median {:?}", times[0], times[times.len() / 2]);
}

/// Changes ten files, each in a directory of its own.
fn touch(vaults: &Vaults, vault: &str, number: usize) {
    let operations: Vec<_> = (0..10)
        .map(|index| {
            let directory = index * 97;
            let path = format!("part-{:02}/dir-{directory}/file-1.txt", directory % 10);
            FileOp::write(&TreePath::parse(path).unwrap(), format!("changed {number} {index}"))
        })
        .collect();
    assert!(vaults.change(vault, &operations).unwrap().is_changed);
}

/// Words; the mean size of a file is 10 kB.
fn fill(root: &Path) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("part-{:02}/dir-{directory}", directory % 10));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            let size = (random() % 20_000) as usize;
            let mut content = Vec::with_capacity(size + 16);
            while content.len() < size {
                content.extend_from_slice(format!("word{} ", random() % 1000).as_bytes());
            }
            fs::write(path.join(format!("file-{file}.txt")), content).unwrap();
        }
    }
}
