//! History and undo.

use agentiso_core::{Code, Explain};
use agentiso_notes::*;

use crate::support::*;

fn history(view: &View, at: &str) -> Vec<(VersionAction, u64)> {
    let request = ReadHistory { path: path(at), limit: None, before: None };
    let versions = view.history(&request).unwrap().versions;
    versions.into_iter().map(|version| (version.action, version.size)).collect()
}

#[test]
fn every_version_is_kept_and_undo_goes_back_one_by_one() {
    let place = Place::new();
    let view = all(&place.open());
    for text in ["1", "22", "333"] {
        write(&view, "a.md", text);
    }
    use VersionAction::{Undo, Write};
    assert_eq!(history(&view, "a.md"), [(Write, 3), (Write, 2), (Write, 1)]);
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md"), "22");
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md"), "1");
    // Before the first version there was no note.
    assert_eq!(undo(&view, "a.md").unwrap().etag, None);
    assert!(!place.host("a.md").exists());
    assert_eq!(undo(&view, "a.md").unwrap_err().code(), Code::NoteNotFound);
    let request = ReadHistory { path: path("a.md"), limit: None, before: None };
    let versions = view.history(&request).unwrap().versions;
    assert_eq!((versions.len(), versions[0].action), (6, Undo));
    assert_eq!(versions[0].author.as_deref(), Some("tester"));
    // Any version can be read and restored.
    let last = versions.iter().find(|version| version.size == 3).unwrap().version;
    assert_eq!(view.version(&ReadVersion { path: path("a.md"), version: last }).unwrap().content, "333");
    view.undo(&UndoNote { path: path("a.md"), version: Some(last), if_match: Some(IfMatch::Absent) })
        .unwrap();
    assert_eq!(place.text("a.md"), "333");
}

#[test]
fn a_deleted_note_comes_back() {
    let place = Place::new();
    place.by_hand("a.md", "by hand");
    let view = all(&place.open());
    delete(&view, "a.md").unwrap();
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md"), "by hand");
}

#[test]
fn edits_by_hand_are_versions_too() {
    let place = Place::new();
    place.by_hand("a.md", "one");
    let notes = place.open();
    let view = all(&notes);
    assert_eq!(history(&view, "a.md"), []);
    assert_eq!(undo(&view, "a.md").unwrap_err().code(), Code::NoteNotFound);
    place.by_hand("a.md", "two!");
    notes.scan().unwrap();
    assert_eq!(history(&view, "a.md"), [(VersionAction::Outside, 4), (VersionAction::Outside, 3)]);
    std::fs::remove_file(place.host("a.md")).unwrap();
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md"), "two!");
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md"), "one");
}

#[test]
fn history_follows_a_note_through_moves_but_not_out_of_the_scope() {
    let place = Place::new();
    let notes = place.open();
    let view = all(&notes);
    write(&view, "private/a.md", "1");
    write(&view, "private/a.md", "22");
    relocate(&view, "private/a.md", "team/b.md").unwrap();
    write(&view, "team/b.md", "333");
    use VersionAction::{Move, Write};
    assert_eq!(history(&view, "team/b.md"), [(Write, 3), (Move, 2), (Write, 2), (Write, 1)]);
    let member = notes.view(Scope::folders(vec![folder("team")], Vec::new()), None);
    assert_eq!(history(&member, "team/b.md"), [(Write, 3), (Move, 2)]);
    let first =
        view.history(&ReadHistory { path: path("team/b.md"), limit: None, before: None }).unwrap().versions
            [3]
        .version;
    assert!(view.version(&ReadVersion { path: path("team/b.md"), version: first }).is_ok());
    let refused = member.version(&ReadVersion { path: path("team/b.md"), version: first }).unwrap_err();
    assert_eq!(refused.code(), Code::NoteNotFound);
}

#[test]
fn a_version_of_another_note_is_not_this_notes() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "a");
    write(&view, "b.md", "b");
    let version =
        view.history(&ReadHistory { path: path("a.md"), limit: None, before: None }).unwrap().versions[0]
            .version;
    assert!(view.version(&ReadVersion { path: path("b.md"), version }).is_err());
    assert!(view.undo(&UndoNote { path: path("b.md"), version: Some(version), if_match: None }).is_err());
    assert_eq!(place.text("b.md"), "b");
}

#[test]
fn old_versions_are_forgotten_and_the_last_ones_kept() {
    let place = Place::new();
    let notes = place.open();
    let view = all(&notes);
    for size in 1..=9 {
        write(&view, "a.md", &"x".repeat(size));
    }
    // Everything is of today.
    assert_eq!(notes.expire(Retention { versions: 1, days: 1 }).unwrap().removed_versions, 0);
    let connection = rusqlite::Connection::open(place.dir.path().join("state/history.db")).unwrap();
    connection.execute("UPDATE version SET at_ms = 0", []).unwrap();
    assert_eq!(notes.expire(Retention { versions: 3, days: 1 }).unwrap().removed_versions, 6);
    assert_eq!(history(&view, "a.md").len(), 3);
    undo(&view, "a.md").unwrap();
    assert_eq!(place.text("a.md").len(), 8);
}
