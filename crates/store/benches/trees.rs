//! Import, comparison, export and garbage collection of a tree of 100,000 files: `cargo bench -p agentiso-store`.
//!
//! Everything is created below the target directory, about 3 GB at most, and removed at the end. `cp -r` of the same files
//! runs in the same process, before and after the import, so that both meet the same machine.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use agentiso_store::{
    ChangeOptions, Edit, GcOptions, ImportOptions, Lease, MaterialiseOptions, MergeOptions, Node, Options,
    Reuse, Root, Sharing, Sides, Store, StoreError, TreeId, TreePath, changes, collect, edit,
    import_directory, lookup, materialise, merge, store_bytes,
};

const DIRECTORIES: usize = 1000;
const FILES: usize = 100;
/// Sizes are spread evenly below this; the mean is half of it.
const MAX_SIZE: u64 = 20_000;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| base.path().join(name);
    let bytes = fill(&at("source"));
    println!("{} files, {} MB", DIRECTORIES * FILES, bytes / 1_000_000);

    let copies: Vec<Duration> =
        ["copy-1", "copy-2"].iter().map(|name| copy(&at("source"), &at(name))).collect();
    let store = Store::open_or_create(&at("store"), Options::default()).unwrap();
    let (elapsed, (tree, lease, cache)) = timed(|| import(&store, &at("source"), None));
    let again = copy(&at("source"), &at("copy-3"));
    let copy = copies.into_iter().chain([again]).min().unwrap();
    let ratio = elapsed.as_secs_f64() / copy.as_secs_f64();
    println!("cp -r                       {copy:?} (best of 3)");
    println!("import, flushed to disk     {elapsed:?}, {ratio:.2} times cp -r");
    let (elapsed, _) = timed(|| import(&store, &at("source"), Some(&cache)));
    println!("import again, unchanged     {elapsed:?}");

    let (elapsed, (other, other_lease)) = timed(|| touch(&store, tree, 7));
    println!("edit of 10 files, committed {elapsed:?}");
    let (elapsed, found) = best(20, || changes(&store, tree, other, &ChangeOptions::default()).unwrap());
    assert_eq!(found.total, 10);
    println!("diff, 10 files differ       {elapsed:?} (best of 20, warm)");
    let (elapsed, found) = timed(|| {
        let store = Store::open(&at("store"), Options::default()).unwrap();
        changes(&store, tree, other, &ChangeOptions::default()).unwrap()
    });
    assert_eq!(found.total, 10);
    println!("diff, store newly opened    {elapsed:?}");
    let (ours, ours_lease) = touch(&store, tree, 9);
    let (elapsed, merged) = best(20, || {
        let session = store.begin().unwrap();
        merge(&session, Sides { base: tree, ours, theirs: other }, &MergeOptions::default()).unwrap()
    });
    assert_eq!(merged.conflicts, []);
    println!("merge of 10 files and 10    {elapsed:?} (best of 20)");

    let plain = MaterialiseOptions::default();
    let (elapsed, _) = timed(|| materialise(&store, tree, &at("out"), &plain).unwrap());
    println!("materialise                 {elapsed:?}");
    let reuse = Reuse { directory: &at("out"), tree, sharing: Sharing::HardLink };
    let linked = MaterialiseOptions { reuse: Some(reuse), ..plain };
    let (elapsed, done) = timed(|| materialise(&store, other, &at("linked"), &linked).unwrap());
    println!("materialise by hard links   {elapsed:?}, {} of them", done.linked);

    drop((lease, other_lease, ours_lease));
    let roots = |trees: Vec<TreeId>| move || Ok::<_, StoreError>(trees.into_iter().map(Root::Tree).collect());
    let (elapsed, _) = timed(|| collect(&store, GcOptions::default(), roots(vec![tree, other])).unwrap());
    println!("gc, nothing to remove       {elapsed:?}");
    let half = removed_half(&store, tree);
    let (elapsed, report) = timed(|| collect(&store, GcOptions::default(), roots(vec![half])).unwrap());
    println!("gc, half is garbage         {elapsed:?}, {} MB freed", report.freed_bytes / 1_000_000);
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn best<T>(times: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    (0..times).map(|_| timed(&mut work)).min_by_key(|(elapsed, _)| *elapsed).unwrap()
}

/// Text of words, about three times smaller when compressed, and a quarter of random bytes.
fn fill(root: &Path) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut total = 0;
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("part-{:02}/dir-{directory}", directory % 10));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
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
            fs::write(path.join(format!("file-{file}.txt")), content).unwrap();
        }
    }
    total
}

fn copy(from: &Path, to: &Path) -> Duration {
    let (elapsed, status) = timed(|| Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap());
    assert!(status.success());
    elapsed
}

fn import(
    store: &Store,
    source: &Path,
    cache: Option<&agentiso_store::StatCache>,
) -> (TreeId, Lease, agentiso_store::StatCache) {
    let session = store.begin().unwrap();
    let options = ImportOptions { cache, ..ImportOptions::default() };
    let imported = import_directory(&session, source, &options).unwrap();
    (imported.tree, session.commit(&[Root::Tree(imported.tree)]).unwrap(), imported.cache)
}

/// The tree with ten files changed, each in a directory of its own.
fn touch(store: &Store, tree: TreeId, name: usize) -> (TreeId, Lease) {
    let session = store.begin().unwrap();
    let mut edits = BTreeMap::new();
    for number in 0..10 {
        let directory = number * 97;
        let path =
            TreePath::parse(format!("part-{:02}/dir-{directory}/file-{name}.txt", directory % 10)).unwrap();
        let Some(Node::File(mut file)) = lookup(store, tree, &path).unwrap() else { panic!("{path}") };
        let text = format!("changed {number}");
        (file.size, file.content) = (text.len() as u64, store_bytes(&session, text.as_bytes()).unwrap());
        edits.insert(path, Edit::Put(Node::File(file)));
    }
    let other = edit(&session, tree, edits).unwrap();
    (other, session.commit(&[Root::Tree(other)]).unwrap())
}

fn removed_half(store: &Store, tree: TreeId) -> TreeId {
    let session = store.begin().unwrap();
    let edits =
        (0..5).map(|part| (TreePath::parse(format!("part-{part:02}")).unwrap(), Edit::Remove)).collect();
    let half = edit(&session, tree, edits).unwrap();
    session.commit(&[Root::Tree(half)]).unwrap();
    half
}
