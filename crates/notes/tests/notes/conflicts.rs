//! Several writers of one note.

use std::sync::Arc;

use agentiso_core::{Code, Explain};
use agentiso_notes::*;

use crate::support::*;

fn conflict(error: NotesError) -> Conflict {
    assert_eq!(error.code(), Code::NoteConflict);
    let NotesError::Conflict(conflict) = error else { panic!("{error:?}") };
    *conflict
}

#[test]
fn a_stale_write_is_refused_with_both_versions_and_a_merge() {
    let place = Place::new();
    let view = all(&place.open());
    let base = write(&view, "a.md", "one\ntwo\nthree\n").etag;
    let theirs = write(&view, "a.md", "ONE\ntwo\nthree\n").etag;
    let refused =
        write_with(&view, "a.md", "one\ntwo\nTHREE\n", WriteMode::Overwrite, Some(IfMatch::Is(base)));
    let found = conflict(refused.unwrap_err());
    assert_eq!(found.current.as_deref(), Some("ONE\ntwo\nthree\n"));
    assert_eq!(found.proposed.as_deref(), Some("one\ntwo\nTHREE\n"));
    assert_eq!(found.base.as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(found.current_etag, Some(theirs));
    let merge = found.merge.unwrap();
    assert_eq!((merge.text.as_str(), merge.conflicts), ("ONE\ntwo\nTHREE\n", 0));
    write_with(&view, "a.md", &merge.text, WriteMode::Overwrite, Some(IfMatch::Is(theirs))).unwrap();
    assert_eq!(place.text("a.md"), "ONE\ntwo\nTHREE\n");
}

#[test]
fn the_same_lines_give_a_merge_with_markers() {
    let place = Place::new();
    let view = all(&place.open());
    let base = write(&view, "a.md", "one\n").etag;
    write(&view, "a.md", "two\n");
    let refused =
        write_with(&view, "a.md", "three\n", WriteMode::Overwrite, Some(IfMatch::Is(base))).unwrap_err();
    let merge = conflict(refused).merge.unwrap();
    assert_eq!(merge.text, "<<<<<<< current\ntwo\n=======\nthree\n>>>>>>> proposed\n");
}

#[test]
fn a_change_by_hand_conflicts_too_and_the_text_before_it_is_known() {
    let place = Place::new();
    place.by_hand("a.md", "one\ntwo\nthree\n");
    let view = all(&place.open());
    let base = read(&view, "a.md").etag;
    place.by_hand("a.md", "ONE\ntwo\nthree\n");
    let refused =
        write_with(&view, "a.md", "four\n", WriteMode::Append, Some(IfMatch::Is(base))).unwrap_err();
    let found = conflict(refused);
    assert_eq!(found.merge.unwrap().text, "ONE\ntwo\nthree\nfour\n");
    assert_eq!(place.text("a.md"), "ONE\ntwo\nthree\n");
}

#[test]
fn absent_means_that_nothing_is_overwritten() {
    let place = Place::new();
    let view = all(&place.open());
    write_with(&view, "a.md", "x", WriteMode::Overwrite, Some(IfMatch::Absent)).unwrap();
    let refused = write_with(&view, "a.md", "y", WriteMode::Overwrite, Some(IfMatch::Absent)).unwrap_err();
    assert_eq!(conflict(refused).current.as_deref(), Some("x"));
    let etag = read(&view, "a.md").etag;
    delete(&view, "a.md").unwrap();
    let refused = write_with(&view, "a.md", "y", WriteMode::Overwrite, Some(IfMatch::Is(etag))).unwrap_err();
    assert_eq!(conflict(refused).current_etag, None);
    assert!(!place.host("a.md").exists());
}

#[test]
fn a_stale_write_of_the_current_text_is_refused_too() {
    let place = Place::new();
    let view = all(&place.open());
    let base = write(&view, "claim.md", "free").etag;
    let claim = || write_with(&view, "claim.md", "taken", WriteMode::Overwrite, Some(IfMatch::Is(base)));
    claim().unwrap();
    assert_eq!(conflict(claim().unwrap_err()).current.as_deref(), Some("taken"));
}

#[test]
fn an_etag_does_not_reveal_the_text_of_another_note() {
    let place = Place::new();
    let view = all(&place.open());
    let secret = write(&view, "other/secret.md", "secret").etag;
    write(&view, "mine.md", "x");
    let refused =
        write_with(&view, "mine.md", "y", WriteMode::Overwrite, Some(IfMatch::Is(secret))).unwrap_err();
    assert_eq!(conflict(refused).base, None);
}

#[test]
fn every_increment_of_many_writers_counts() {
    const WRITERS: usize = 4;
    const TURNS: usize = 15;
    let place = Arc::new(Place::new());
    write(&all(&place.open()), "n.md", "0");
    let threads: Vec<_> = (0..WRITERS)
        .map(|_| {
            let place = place.clone();
            std::thread::spawn(move || {
                // As a process of its own would.
                let view = all(&place.open());
                for _ in 0..TURNS {
                    loop {
                        let note = read(&view, "n.md");
                        let next = (note.content.parse::<usize>().unwrap() + 1).to_string();
                        let expected = Some(IfMatch::Is(note.etag));
                        match write_with(&view, "n.md", &next, WriteMode::Overwrite, expected) {
                            Ok(_) => break,
                            Err(NotesError::Conflict(_)) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(place.text("n.md"), (WRITERS * TURNS).to_string());
}

#[test]
fn every_append_of_many_writers_is_kept() {
    let place = Arc::new(Place::new());
    let notes = place.open();
    let threads: Vec<_> = (0..4)
        .map(|writer| {
            let view = all(&notes);
            std::thread::spawn(move || {
                for turn in 0..10 {
                    write_with(&view, "log.md", &format!("{writer}.{turn}"), WriteMode::Append, None)
                        .unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let text = place.text("log.md");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 40);
}
