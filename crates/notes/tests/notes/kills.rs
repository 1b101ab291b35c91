//! A process is killed at every step of a change in turn. What was there before is there whole, or what comes after.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentiso_notes::*;

use crate::support::*;

const OPERATION: &str = "NOTES_TEST_OPERATION";
const KILL_AT: &str = "NOTES_TEST_KILL_AT";
const PLACE: &str = "NOTES_TEST_PLACE";

fn open_with(base: &Path, steps: Steps) -> View {
    all(&Notes::open_with(config(base), steps).unwrap())
}

/// The operation of the process that is killed.
#[test]
#[ignore = "the other tests of this file run it in a process of its own"]
fn child() {
    let base = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let kill_at: usize = std::env::var(KILL_AT).unwrap().parse().unwrap();
    let count = AtomicUsize::new(1);
    let steps = Steps::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == kill_at {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
        }
        Ok(())
    });
    let view = open_with(&base, steps);
    match std::env::var(OPERATION).unwrap().as_str() {
        "write" => drop(write(&view, "a.md", "new")),
        "delete" => drop(delete(&view, "a.md").unwrap()),
        "move" => {
            let (path, new_path) = (path("a.md"), path("z/b.md"));
            view.relocate(&MoveNote { path, new_path, overwrite: true, if_match: None }).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Runs the operation with a kill at each step, each time in a new place, until it completes. Returns the kills.
fn kill_everywhere(operation: &str, prepare: impl Fn(&Place), verify: impl Fn(&Place, usize)) -> usize {
    for kill_at in 1..200 {
        let place = Place::new();
        prepare(&place);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::child", "--ignored", "--quiet"])
            .env(OPERATION, operation)
            .env(KILL_AT, kill_at.to_string())
            .env(PLACE, place.dir.path())
            .output()
            .unwrap();
        if !output.status.success() {
            let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
            assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&output.stdout));
        }
        verify(&place, kill_at);
        let kept = index_of(&place);
        place.open().rebuild().unwrap();
        assert_eq!(kept, index_of(&place), "after a kill at step {kill_at}");
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new());
        if output.status.success() {
            return kill_at - 1;
        }
    }
    panic!("the operation does not end");
}

fn leftovers(place: &Place) -> Vec<PathBuf> {
    let folders = ["", "z"].map(|folder| place.host(folder));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('.'))
        .collect()
}

#[test]
fn a_write_happens_or_not() {
    let prepare = |place: &Place| {
        let view = all(&place.open());
        write(&view, "a.md", "old");
    };
    let kills = kill_everywhere("write", prepare, |place, kill_at| {
        let view = all(&place.open());
        let text = read(&view, "a.md").content;
        assert!(["old", "new"].contains(&text.as_str()), "{text:?} after a kill at step {kill_at}");
        assert_eq!(found(&view, &text), ["a.md"]);
        if text == "new" {
            undo(&view, "a.md").unwrap();
            assert_eq!(place.text("a.md"), "old");
        }
    });
    assert!(kills >= 5, "{kills}");
}

#[test]
fn a_removal_happens_or_not_and_is_undone() {
    let prepare = |place: &Place| place.by_hand("a.md", "old");
    let kills = kill_everywhere("delete", prepare, |place, _| {
        let view = all(&place.open());
        if place.host("a.md").exists() {
            assert_eq!(place.text("a.md"), "old");
        } else {
            undo(&view, "a.md").unwrap();
            assert_eq!(place.text("a.md"), "old");
        }
    });
    assert!(kills >= 4, "{kills}");
}

#[test]
fn a_move_with_its_links_happens_as_a_whole() {
    let prepare = |place: &Place| {
        place.by_hand("a.md", "a [[a]] [x](x.md)");
        place.by_hand("z/b.md", "to be replaced");
        for note in ["x.md", "y.md", "z/w.md"] {
            place.by_hand(note, format!("{note} [[a]] [[a#h|t]]"));
        }
    };
    let kills = kill_everywhere("move", prepare, |place, kill_at| {
        let view = all(&place.open());
        let is_moved = !place.host("a.md").exists();
        for note in ["x.md", "y.md", "z/w.md"] {
            let expected = if is_moved {
                format!("{note} [[z/b]] [[z/b#h|t]]")
            } else {
                format!("{note} [[a]] [[a#h|t]]")
            };
            let expected = if note == "z/w.md" {
                expected.replace("z/b", "b")
            } else {
                expected.replace("[[z/b", "[[b")
            };
            assert_eq!(place.text(note), expected, "after a kill at step {kill_at}");
        }
        if is_moved {
            assert_eq!(place.text("z/b.md"), "a [[b]] [x](../x.md)");
            let versions =
                view.history(&ReadHistory { path: path("z/b.md"), limit: None, before: None }).unwrap();
            assert_eq!(versions.versions[0].action, VersionAction::Move);
        } else {
            assert_eq!(place.text("a.md"), "a [[a]] [x](x.md)");
            assert_eq!(place.text("z/b.md"), "to be replaced");
        }
        // The next change works.
        write(&view, "next.md", "x");
    });
    assert!(kills >= 8, "{kills}");
}
