//! Mounts of a tree of 100,000 files beside the plain file system: `cargo bench -p agentiso-mounts [-- FILES]`.
//!
//! Everything is created below the target directory, about 4 GB at most, and removed at the end. Every comparison runs the
//! same commands on a plain copy and on the mounts, in turn, in one process. Rows over FUSE are left out, and said to be,
//! where it cannot be used.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentiso_mounts::{
    By, Enter, IngestOptions, Kind, Launcher, LayoutOptions, Layouts, MountRequest, Mounts, Support, WorkDir,
    WorkDirOptions, WorkDirs, enter,
};
use agentiso_store::{ImportOptions, Options, Root, Store, TreeId, import_directory};

const PER_DIRECTORY: usize = 100;
/// Sizes are spread evenly below this; the mean is half of it.
const MAX_SIZE: u64 = 20_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", record] => agentiso_mounts::serve_mount(Path::new(record)).unwrap(),
        words if words.contains(&"--list") => {}
        words => {
            let files = words.iter().find_map(|word| word.parse().ok()).unwrap_or(100_000);
            measure(files);
        }
    }
}

struct Bench {
    base: PathBuf,
    layouts: Layouts,
    dirs: WorkDirs,
}

fn measure(files: usize) {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| base.path().join(name);
    let bytes = fill(&at("plain"), files);
    git(&at("plain"));
    println!("{files} files, {} MB, and a git repository of them", bytes / 1_000_000);
    let store = Store::open_or_create(&at("store"), Options::default()).unwrap();
    let tree = import(&store, &at("plain"));
    let support = Support::probe(&at("work")).unwrap();
    let (elapsed, _) = timed(|| Support::probe(&at("work")).unwrap());
    row("probe, remembered", elapsed);
    let layouts = Layouts::open(&at("layouts"), &store, LayoutOptions::default()).unwrap();
    let dirs = WorkDirs::open(&at("work"), &store, &layouts, &support).unwrap();
    fs::create_dir(at("at")).unwrap();
    let bench = Bench { base: base.path().to_owned(), layouts, dirs };
    layouts_and_checkpoints(&bench, tree);
    compared(&bench, tree);
}

fn layouts_and_checkpoints(bench: &Bench, tree: TreeId) {
    let (elapsed, copied) = timed(|| sh(&bench.base, "cp -r plain copy"));
    assert!(copied);
    row("cp -r", elapsed);
    let (elapsed, _) = timed(|| bench.layouts.base(tree).unwrap());
    row("layout of the tree, once", elapsed);
    let (elapsed, _) = best(20, || bench.layouts.base(tree).unwrap());
    row("layout that exists", elapsed);
    let (elapsed, _) = best(20, || create(bench, tree).remove().unwrap());
    row("fork: working directory made and removed", elapsed);
    let workdir = create(bench, tree);
    let (elapsed, _) = best(20, || run(bench, &workdir, &["true"]));
    row("mount in a namespace, run true", elapsed);
    let (elapsed, _) = best(20, || assert!(Command::new("true").status().unwrap().success()));
    row("run true alone", elapsed);
    let mut trees = Vec::new();
    let mut touch = |round: usize| {
        let script = (0..10).map(|number| format!("echo {round} > dir-{}/file-{round};", number * 3));
        run(bench, &workdir, &["sh", "-c", &script.collect::<String>()]);
        let (elapsed, ingested) = timed(|| workdir.ingest(&IngestOptions::default()).unwrap());
        assert_eq!(ingested.changes.total, 10);
        trees.push((ingested.tree, ingested.lease));
        elapsed
    };
    let mut all: Vec<Duration> = (0..9).map(&mut touch).collect();
    all.sort();
    row("ingest of 10 changed files (median of 9)", *all.get(4).unwrap());
    let (elapsed, _) = best(20, || workdir.ingest(&IngestOptions::default()).unwrap());
    row("ingest again, nothing changed", elapsed);
    let (elapsed, _) = best(1000, || workdir.is_touched().unwrap());
    row("is it touched", elapsed);
    let (last, _lease) = trees.last().unwrap();
    let (elapsed, base) = timed(|| bench.layouts.base(*last).unwrap());
    assert_eq!(base.lowers().len(), 2);
    row("restore: layer of 90 changed files, made", elapsed);
    let (elapsed, _) = best(20, || create(bench, *last).remove().unwrap());
    row("restore: working directory on it", elapsed);
    workdir.remove().unwrap();
}

/// The same commands on the plain directory, in a namespace, and over FUSE.
fn compared(bench: &Bench, tree: TreeId) {
    let point = bench.base.join("point");
    fs::create_dir(&point).unwrap();
    let launcher = Launcher { program: std::env::current_exe().unwrap(), arguments: vec!["serve".into()] };
    let mounts = Mounts::open(&bench.base.join("mounts"), &bench.dirs, launcher).unwrap();
    let request =
        |by| MountRequest { tree, point: point.clone(), label: String::new(), read_only: false, by };
    let fuse = match bench.dirs.support().fuse() {
        Ok(()) => {
            let (elapsed, info) = timed(|| mounts.mount(&request(By::Fuse)).unwrap());
            row("mount over FUSE", elapsed);
            Some(info)
        }
        Err(reason) => {
            println!("FUSE is left out: {reason}");
            None
        }
    };
    let workdir = create(bench, tree);
    let plain = bench.base.join("copy");
    let commands = [
        ("git status, first", "git status --short"),
        ("git status, again", "git status --short"),
        ("find, with attributes", "find . -printf '%s\\n' | tail -1"),
        ("read all files", "tar -cf - --exclude=.git . | cat > /dev/null"),
        ("git clone, local", "rm -rf ../clone; git clone -q . \"$CLONE\"; rm -rf \"$CLONE\""),
        ("write 1000 files", "mkdir new; for i in $(seq 1000); do echo $i > new/$i; done"),
        (
            "rename 1000 files",
            "for i in $(seq 20); do for f in new/*; do :; done; done; cd new; perl -e 'rename $_, \"x$_\" for 1..1000'",
        ),
        (
            "rename a directory of 100 files",
            "perl -e 'rename \"dir-1\", \"renamed\" or exit 0'; ls renamed > /dev/null 2>&1 || mv dir-1 renamed",
        ),
        ("rm -rf of half", "rm -rf dir-*[02468]"),
    ];
    println!("{:<36} {:>12} {:>12} {:>12}", "", "plain", "overlay", "FUSE");
    for (name, command) in commands {
        let script = format!("CLONE={}/clone; {command}", bench.base.display());
        let (on_plain, done) = timed(|| sh(&plain, &script));
        assert!(done, "{command}");
        let (on_overlay, ()) = timed(|| run(bench, &workdir, &["sh", "-c", &script]));
        let on_fuse = fuse.as_ref().map(|info| {
            let (elapsed, done) = timed(|| sh(&info.point, &script));
            assert!(done, "{command}");
            elapsed
        });
        let factor = |time: Duration| {
            format!("{:.1} ms x{:.2}", ms(time), time.as_secs_f64() / on_plain.as_secs_f64())
        };
        let on_fuse = on_fuse.map_or("-".to_owned(), factor);
        println!("{name:<36} {:>9.1} ms {:>18} {:>18}", ms(on_plain), factor(on_overlay), on_fuse);
    }
    let (elapsed, ingested) = timed(|| workdir.ingest(&IngestOptions::default()).unwrap());
    row(&format!("ingest of {} changes", ingested.changes.total), elapsed);
    if let Some(info) = fuse {
        let workdir = mounts.unmount(&info.point, true).unwrap();
        workdir.remove().unwrap();
    }
    let (elapsed, plain) = timed(|| {
        let options = WorkDirOptions { label: String::new(), kind: Kind::Plain };
        bench.dirs.create(tree, &options).unwrap()
    });
    row("plain directory made", elapsed);
    let (elapsed, _) = timed(|| plain.ingest(&IngestOptions::default()).unwrap());
    row("plain directory: first ingest", elapsed);
    let (elapsed, _) = timed(|| plain.ingest(&IngestOptions::default()).unwrap());
    row("plain directory: ingest again", elapsed);
}

fn row(name: &str, elapsed: Duration) {
    println!("{name:<42} {:>10.2} ms", ms(elapsed));
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn best<T>(times: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    (0..times).map(|_| timed(&mut work)).min_by_key(|(elapsed, _)| *elapsed).unwrap()
}

fn create(bench: &Bench, tree: TreeId) -> WorkDir {
    bench.dirs.create(tree, &WorkDirOptions { label: String::new(), kind: Kind::Overlay }).unwrap()
}

fn run(bench: &Bench, workdir: &WorkDir, words: &[&str]) {
    let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    let what = Enter { workdir, at: &bench.base.join("at"), argv: &argv, read_only: false };
    let entered = enter(&what, |command| {
        command.stdout(Stdio::null());
    });
    assert!(entered.unwrap().wait_for_all().unwrap().0.success(), "{words:?}");
}

fn sh(directory: &Path, script: &str) -> bool {
    let status =
        Command::new("sh").args(["-ec", script]).current_dir(directory).stdout(Stdio::null()).status();
    status.unwrap().success()
}

fn git(root: &Path) {
    let commit = "git init -q .; git add .; git -c user.name=x -c user.email=x@example.org commit -q -m all; git gc -q";
    assert!(sh(root, commit));
}

fn import(store: &Store, source: &Path) -> TreeId {
    let session = store.begin().unwrap();
    let imported = import_directory(&session, source, &ImportOptions::default()).unwrap();
    let lease = session.commit(&[Root::Tree(imported.tree)]).unwrap();
    store.pin("bench", Root::Tree(imported.tree)).unwrap();
    drop(lease);
    imported.tree
}

/// Text of words, about three times smaller when compressed, and a quarter of random bytes.
fn fill(root: &Path, files: usize) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut total = 0;
    for directory in 0..files.div_ceil(PER_DIRECTORY) {
        let path = root.join(format!("dir-{directory}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..PER_DIRECTORY {
            let size = (random() % MAX_SIZE) as usize;
            let mut content = Vec::with_capacity(size + 16);
            while content.len() < size {
                if file % 4 == 0 {
                    content.extend_from_slice(&random().to_le_bytes());
                } else {
                    content.extend_from_slice(format!("word{} ", random() % 1000).as_bytes());
                }
            }
            content.truncate(size);
            total += size as u64;
            fs::write(path.join(format!("file-{file}")), content).unwrap();
        }
    }
    total
}
