//! Checks for leaked processes, files and database rows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentiso_meta::Meta;

use crate::strike::qemus;

/// How long a killed process may take to disappear.
const LAST_BREATH: Duration = Duration::from_secs(10);
/// How long the daemon may take to notice and complete pending cleanup.
const TIDYING: Duration = Duration::from_secs(60);

/// Checks that a home contains exactly what its database lists. Listed but unneeded objects may stay until the next
/// maintenance.
pub fn check(home: &Path) {
    wait_until_nothing_is_undone(home);
    let _away = keep_maintenance_away(home);
    let meta = Meta::open(&home.join("state.db")).expect("the state");
    meta.verify().unwrap_or_else(|error| panic!("{error:?}"));
    let state = meta.read(|read| Ok((read.workspaces()?, read.pool()?, read.operations()?))).unwrap();
    let (workspaces, pool, operations) = state;
    assert!(operations.is_empty(), "left undone: {operations:?}");
    let machines: Vec<String> = workspaces
        .iter()
        .filter_map(|workspace| workspace.machine())
        .chain(pool.iter().map(|one| &one.machine))
        .map(ToString::to_string)
        .collect();
    let is_named = |name: &str| machines.iter().any(|machine| machine.contains(name));

    let disks = meta.read(|read| read.disks()).unwrap();
    let known: BTreeSet<String> = disks.iter().map(|disk| disk.id.to_string()).collect();
    let files = entries(&home.join("disks"));
    let files = files.iter().filter(|path| !is_book_keeping(path));
    let (records, files): (Vec<_>, Vec<_>) = files.partition(|path| name(path).ends_with(".workspace.json"));
    for record in records {
        let owner = name(record);
        let is_known = workspaces.iter().any(|one| owner.starts_with(&one.id.to_string()));
        assert!(is_known, "a record of a removed workspace: {owner}");
    }
    let found: BTreeSet<String> =
        files.iter().map(|path| name(path).trim_end_matches(".qcow2").to_owned()).collect();
    assert_eq!(found, known, "the files of disks (left) must be those in the database (right)");

    let (memories, packs) = meta.read(|read| Ok((read.memories()?, read.packs()?))).unwrap();
    let known: BTreeSet<String> =
        memories.iter().map(|memory| memory.id).chain(packs).map(|id| id.to_string()).collect();
    let found: BTreeSet<String> = entries(&home.join("memory")).iter().map(|path| name(path)).collect();
    assert_eq!(found, known, "the directories of memory images (left) must be those in the database (right)");

    for path in entries(&home.join("workspaces")) {
        let owner = name(&path);
        let owner = owner.trim_end_matches(".lock");
        if path.is_dir() {
            let dirs = entries(&path);
            assert!(dirs.iter().all(|dir| is_named(&name(dir))), "machines without a workspace: {dirs:?}");
            assert!(is_named(owner), "no machine of {owner} runs, but its directory exists");
        } else {
            assert!(
                workspaces.iter().any(|one| one.id.to_string() == owner),
                "a lock without a workspace: {owner}"
            );
        }
    }
    assert_eq!(entries(&home.join("machines")), Vec::<PathBuf>::new());
    let pids: Vec<String> = machines.iter().map(|machine| pid_of(machine)).collect();
    // A machine that creates a template ends with its parent, after a moment.
    let deadline = Instant::now() + LAST_BREATH;
    let is_stray = |pid: &u32| !pids.contains(&pid.to_string());
    while let Some(stray) = qemus(home).into_iter().find(is_stray) {
        assert!(Instant::now() < deadline, "a QEMU without an owner: {stray}");
        std::thread::yield_now();
    }
}

/// Waits until the daemon has cleaned up after failures.
fn wait_until_nothing_is_undone(home: &Path) {
    let meta = Meta::open(&home.join("state.db")).expect("the state");
    let deadline = Instant::now() + TIDYING;
    loop {
        let undone = meta.read(|read| read.operations()).unwrap();
        if undone.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left undone: {undone:?}");
        std::thread::yield_now();
    }
}

/// Waits for background maintenance and keeps it from starting again.
pub fn keep_maintenance_away(home: &Path) -> fs::File {
    let dir = home.join("maintenance");
    fs::create_dir_all(&dir).unwrap();
    let lock = fs::File::options().create(true).truncate(false).write(true).open(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Checks that nothing unneeded is kept, once the daemon has cleaned up.
pub fn check_needed(home: &Path) {
    let deadline = Instant::now() + TIDYING;
    while let Err(unneeded) = all_is_needed(home) {
        assert!(Instant::now() < deadline, "nobody needs {unneeded}");
        std::thread::yield_now();
    }
}

fn all_is_needed(home: &Path) -> Result<(), String> {
    let _away = keep_maintenance_away(home);
    let meta = Meta::open(&home.join("state.db")).expect("the state");
    let unneeded = meta.read(|read| Ok((read.unneeded_disks()?, read.unneeded_memories()?))).unwrap();
    if unneeded != (Vec::new(), Vec::new()) {
        return Err(format!("{unneeded:?}"));
    }
    let (memories, workspaces) = meta.read(|read| Ok((read.memories()?, read.workspaces()?))).unwrap();
    let machines: Vec<String> =
        workspaces.iter().filter_map(|one| one.machine()).map(ToString::to_string).collect();
    for base in entries(&home.join("bases")) {
        let base = name(&base);
        let is_needed = memories.iter().any(|memory| memory.base == base)
            || machines.iter().any(|machine| machine.contains(&base));
        if !is_needed {
            return Err(base);
        }
    }
    Ok(())
}

/// Files of the installation itself. An incomplete record of a killed process is removed by the next sweep.
fn is_book_keeping(path: &Path) -> bool {
    let name = name(path);
    [".lock", ".backend", ".zfs", ".database.json"].contains(&name.as_str()) || name.starts_with(".record-")
}

/// Checks that nothing at all is left.
pub fn check_empty(home: &Path) {
    check(home);
    check_needed(home);
    for dir in ["disks", "memory", "bases", "workspaces"] {
        let left = entries(&home.join(dir));
        let left: Vec<_> = left.iter().filter(|path| !is_book_keeping(path)).collect();
        assert!(left.is_empty(), "left in {dir}: {left:?}");
    }
    assert_eq!(qemus(home), Vec::<u32>::new());
}

fn pid_of(machine: &str) -> String {
    let machine: serde_json::Value = serde_json::from_str(machine).unwrap();
    machine["record"]["pid"].to_string()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}
