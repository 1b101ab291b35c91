//! Changes of other programs.

use std::fs;
use std::time::{Duration, Instant};

use agentiso_notes::*;

use crate::support::*;

/// Waits for events until a search finds what it should.
fn wait_until(watcher: &mut Watcher, mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_done() {
        assert!(Instant::now() < deadline, "the change was not noticed");
        watcher.wait(Duration::from_millis(200)).unwrap();
    }
}

#[test]
fn files_folders_moves_and_removals_are_noticed() {
    let place = Place::new();
    place.by_hand("a/one.md", "alpha");
    let notes = place.open();
    let view = all(&notes);
    let mut watcher = Watcher::open(&notes).unwrap();
    place.by_hand("a/one.md", "beta");
    wait_until(&mut watcher, || found(&view, "beta") == ["a/one.md"]);
    place.by_hand("new/deep/er/two.md", "gamma");
    wait_until(&mut watcher, || found(&view, "gamma") == ["new/deep/er/two.md"]);
    place.by_hand("new/deep/er/three.md", "delta");
    wait_until(&mut watcher, || found(&view, "delta") == ["new/deep/er/three.md"]);
    fs::rename(place.host("new"), place.host("old")).unwrap();
    wait_until(&mut watcher, || found(&view, "gamma") == ["old/deep/er/two.md"]);
    place.by_hand("old/deep/er/two.md", "epsilon");
    wait_until(&mut watcher, || found(&view, "epsilon") == ["old/deep/er/two.md"]);
    fs::remove_dir_all(place.host("old")).unwrap();
    wait_until(&mut watcher, || found(&view, "delta").is_empty());
    fs::rename(place.host("a/one.md"), place.host("four.md")).unwrap();
    wait_until(&mut watcher, || found(&view, "beta") == ["four.md"]);
}

#[test]
fn changes_before_the_watch_are_noticed_too() {
    let place = Place::new();
    let notes = place.open();
    place.by_hand("a.md", "alpha");
    let _watcher = Watcher::open(&notes).unwrap();
    assert_eq!(found(&all(&notes), "alpha"), ["a.md"]);
}

#[test]
fn own_changes_are_not_reported_as_those_of_others() {
    let place = Place::new();
    let notes = place.open();
    let view = all(&notes);
    let mut watcher = Watcher::open(&notes).unwrap();
    write(&view, "a.md", "x");
    assert_eq!(watcher.wait(Duration::from_secs(5)).unwrap(), 0);
    let versions =
        view.history(&ReadHistory { path: path("a.md"), limit: None, before: None }).unwrap().versions;
    assert_eq!(versions.len(), 1);
}

#[test]
fn two_processes_share_what_one_has_seen() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    write(&all(&one), "a.md", "alpha [[b]]");
    assert_eq!(found(&all(&two), "alpha"), ["a.md"]);
    write(&all(&two), "b.md", "beta");
    assert_eq!(backlinks(&all(&one), "b.md"), ["a.md"]);
}
