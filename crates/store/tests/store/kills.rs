//! A process is killed at every step of an operation in turn. What was recorded before stays whole, and nothing is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentiso_store::{
    GcOptions, ImportOptions, MaterialiseOptions, MergeOptions, Options, Root, Sides, Steps, Store, TreeId,
    check, collect, import_directory, materialise, merge, remove_abandoned, tidy,
};

use crate::support::*;

const OPERATION: &str = "STORE_TEST_OPERATION";
const KILL_AT: &str = "STORE_TEST_KILL_AT";
const PLACE: &str = "STORE_TEST_PLACE";

/// The operation of the process that is killed.
#[test]
#[ignore = "the other tests of this file run it in a process of its own"]
fn child() {
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let kill_at: usize = std::env::var(KILL_AT).unwrap().parse().unwrap();
    let count = AtomicUsize::new(1);
    let steps = Steps::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == kill_at {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
        }
        Ok(())
    });
    let store = Store::open(&place.join("store"), Options { steps }).unwrap();
    match std::env::var(OPERATION).unwrap().as_str() {
        "import" => {
            let session = store.begin().unwrap();
            let options = ImportOptions { threads: 1, ..ImportOptions::default() };
            let imported = import_directory(&session, &place.join("in"), &options).unwrap();
            let _lease = session.commit(&[Root::Tree(imported.tree)]).unwrap();
            record(&place, imported.tree);
        }
        "merge" => {
            let mut trees = recorded(&place);
            let (Some(theirs), Some(ours), Some(base)) = (trees.pop(), trees.pop(), trees.pop()) else {
                panic!()
            };
            let session = store.begin().unwrap();
            let merged = merge(&session, Sides { base, ours, theirs }, &MergeOptions::default()).unwrap();
            let _lease = session.commit(&[Root::Tree(merged.tree)]).unwrap();
            record(&place, merged.tree);
        }
        "gc" => {
            collect(&store, GcOptions { min_waste_percent: 0 }, roots(&recorded(&place))).unwrap();
        }
        "tidy" => drop(tidy(&store).unwrap()),
        "materialise" => {
            let tree = recorded(&place).pop().unwrap();
            let options = MaterialiseOptions { threads: 1, ..MaterialiseOptions::default() };
            materialise(&store, tree, &place.join("out"), &options).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Adds a tree to the records of the caller, in one step.
fn record(place: &Path, tree: TreeId) {
    let mut text = fs::read_to_string(place.join("recorded")).unwrap_or_default();
    text.push_str(&format!("{tree}\n"));
    fs::write(place.join("recorded.new"), text).unwrap();
    fs::rename(place.join("recorded.new"), place.join("recorded")).unwrap();
}

fn recorded(place: &Path) -> Vec<TreeId> {
    let text = fs::read_to_string(place.join("recorded")).unwrap_or_default();
    text.lines().map(|line| TreeId::from_hex(line).unwrap()).collect()
}

/// Runs the operation with a kill at each step until it completes; calls `verify` after each run. Returns the kills.
fn kill_everywhere(place: &Place, operation: &str, mut verify: impl FnMut(&Store)) -> usize {
    let packs: Vec<_> =
        place.files_below("packs").into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    for kill_at in 1..500 {
        // What is left of the run before would add steps to this one, and the end would never be reached.
        if matches!(operation, "gc" | "tidy") {
            place.files_below("packs").iter().for_each(|path| fs::remove_file(path).unwrap());
            packs.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
        }
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::child", "--ignored", "--quiet"])
            .env(OPERATION, operation)
            .env(KILL_AT, kill_at.to_string())
            .env(PLACE, place.dir.path())
            .output()
            .unwrap();
        let store = place.reopened();
        verify(&store);
        if status.status.success() {
            return kill_at - 1;
        }
        let signal = std::os::unix::process::ExitStatusExt::signal(&status.status);
        assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&status.stdout));
    }
    panic!("the operation does not end");
}

fn assert_whole(store: &Store, trees: &[TreeId]) {
    let roots: Vec<_> = trees.iter().map(|tree| (tree.to_string(), Root::Tree(*tree))).collect();
    let report = check(store, &roots).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// What a collection leaves: no temporary file, no lease, and only what is recorded.
fn assert_nothing_left(place: &Place) {
    let trees = recorded(place.dir.path());
    collect(&place.store, GcOptions { min_waste_percent: 0 }, roots(&trees)).unwrap();
    assert_whole(&place.reopened(), &trees);
    assert_eq!(place.files_below("tmp"), Vec::<PathBuf>::new());
    assert_eq!(place.files_below("leases"), Vec::<PathBuf>::new());
    let report = collect(&place.store, GcOptions { min_waste_percent: 0 }, roots(&trees)).unwrap();
    assert_eq!((report.removed_objects, report.leftovers), (0, 0), "{report:?}");
}

#[test]
fn an_import_killed_at_any_step_is_complete_or_absent() {
    let place = Place::new();
    fill(&place.path("in"), 2, 5);
    let kills = kill_everywhere(&place, "import", |store| {
        let trees = recorded(place.dir.path());
        assert_whole(store, &trees);
        for tree in trees {
            assert_eq!(texts(store, tree).len(), 10);
        }
    });
    assert!(kills > 20, "{kills}");
    assert_eq!(recorded(place.dir.path()).len(), 1);
    assert_nothing_left(&place);
}

#[test]
fn a_merge_killed_at_any_step_is_complete_or_absent() {
    let place = Place::new();
    let trees =
        [&[("a/x", "1"), ("b/x", "1")][..], &[("a/x", "2"), ("b/x", "1")], &[("a/x", "1"), ("b/x", "2")]];
    for files in trees {
        let (tree, _lease) = place.tree(files);
        record(place.dir.path(), tree);
    }
    let kills = kill_everywhere(&place, "merge", |store| assert_whole(store, &recorded(place.dir.path())));
    assert!(kills > 4, "{kills}");
    let merged = recorded(place.dir.path()).pop().unwrap();
    let texts = texts(&place.store, merged);
    assert_eq!((texts.get("/a/x").unwrap().as_str(), texts.get("/b/x").unwrap().as_str()), ("2", "2"));
    assert_nothing_left(&place);
}

#[test]
fn a_collection_killed_at_any_step_loses_nothing() {
    let place = Place::new();
    for round in 0..5 {
        let text = format!("round {round}");
        let (kept, _lease) = place.tree(&[("kept", &text), ("same", "same")]);
        record(place.dir.path(), kept);
        let (_garbage, _lease) = place.tree(&[("garbage", &text.repeat(50)), ("same", "same")]);
    }
    let kills = kill_everywhere(&place, "gc", |store| assert_whole(store, &recorded(place.dir.path())));
    assert!(kills > 10, "{kills}");
    assert_nothing_left(&place);
}

#[test]
fn tidying_killed_at_any_step_loses_nothing() {
    let place = Place::new();
    for round in 0..20 {
        let (tree, _lease) = place.tree(&[("file", &format!("round {round}"))]);
        record(place.dir.path(), tree);
    }
    let kills = kill_everywhere(&place, "tidy", |store| assert_whole(store, &recorded(place.dir.path())));
    assert!(kills > 20, "{kills}");
    assert!(place.files_below("packs").len() < 16);
    assert_nothing_left(&place);
}

#[test]
fn an_export_killed_at_any_step_is_complete_or_absent() {
    let place = Place::new();
    fill(&place.path("in"), 2, 4);
    std::os::unix::fs::symlink("x", place.path("in/link")).unwrap();
    let (imported, _lease) = place.import("in");
    record(place.dir.path(), imported.tree);
    let kills = kill_everywhere(&place, "materialise", |_| {
        if place.path("out").exists() {
            assert_eq!(place.import("out").0.tree, imported.tree);
        }
    });
    assert!(kills > 10, "{kills}");
    assert_eq!(place.import("out").0.tree, imported.tree);
    // Each export removed the directory of the one that was killed before it.
    assert_eq!(remove_abandoned(place.dir.path()).unwrap(), 0);
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 4, "store, in, out, recorded");
}
