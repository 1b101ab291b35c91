//! Reading and changing notes.

use std::os::unix::fs::PermissionsExt;

use agentiso_core::{Code, Explain, Secret};
use agentiso_notes::*;
use serde_json::json;

use crate::support::*;

#[test]
fn a_note_is_created_for_its_owner_only_and_read_back() {
    let place = Place::new();
    let view = all(&place.open());
    let written = write(&view, "a/b/c.md", "text");
    assert!(written.created && written.changed);
    let note = read(&view, "a/b/c.md");
    assert_eq!((note.content.as_str(), note.etag, note.size), ("text", written.etag, 4));
    let mode = |path: &str| std::fs::metadata(place.host(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a/b/c.md"), mode("a/b")), (0o600, 0o700));
    assert!(!write(&view, "a/b/c.md", "text").changed);
    std::fs::set_permissions(place.host("a/b/c.md"), PermissionsExt::from_mode(0o644)).unwrap();
    write(&view, "a/b/c.md", "other");
    assert_eq!(mode("a/b/c.md"), 0o644);
    let names: Vec<_> =
        std::fs::read_dir(place.host("a/b")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["c.md"]);
}

#[test]
fn text_is_added_at_both_ends_and_in_sections() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "---\nk: v # c\n---\n# One\na\n\n# Two\nb");
    write_with(&view, "a.md", "end", WriteMode::Append, None).unwrap();
    write_with(&view, "a.md", "begin", WriteMode::Prepend, None).unwrap();
    let section = |mode, heading: &str, content: &str| {
        let heading = Some(heading.to_owned());
        let content = Secret::new(content.to_owned());
        view.write(&WriteNote { path: path("a.md"), content, mode, heading, if_match: None })
    };
    section(WriteMode::AppendSection, "One", "x").unwrap();
    section(WriteMode::AfterHeading, "Two", "y").unwrap();
    assert_eq!(place.text("a.md"), "---\nk: v # c\n---\nbegin\n# One\na\nx\n\n# Two\ny\nb\nend");
    let missing = section(WriteMode::AppendSection, "Three", "x").unwrap_err();
    assert_eq!(missing.code(), Code::EditMismatch);
    assert!(missing.remedy().unwrap().contains("One | Two"), "{missing:?}");
    write_with(&view, "new.md", "x", WriteMode::Append, None).unwrap();
    assert_eq!(place.text("new.md"), "x");
    assert!(write_with(&view, "a.md", "x", WriteMode::AppendSection, None).is_err());
}

#[test]
fn front_matter_and_tags_are_edited_in_place() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "---\n# top\nstatus: open # now\ntags: [a]\n---\nText #inline\n");
    let edit = |frontmatter_action, key: Option<&str>, value| {
        let key = key.map(str::to_owned);
        view.front_matter(&EditFrontMatter {
            path: path("a.md"),
            frontmatter_action,
            key,
            value,
            if_match: None,
        })
    };
    let set = edit(FrontMatterAction::Set, Some("status"), Some(json!("done"))).unwrap();
    assert_eq!(set.frontmatter.get("status"), Some(&json!("done")));
    assert_eq!(set.etag, read(&view, "a.md").etag);
    edit(FrontMatterAction::Delete, Some("none"), None).unwrap();
    let tag = |tags_action, tag: &str| {
        let tag = Some(tag.to_owned());
        view.tags(&EditTags { path: path("a.md"), tags_action, tag, if_match: None })
    };
    assert_eq!(tag(TagsAction::Add, "#b").unwrap().tags, ["a", "b", "inline"]);
    assert!(!tag(TagsAction::Add, "B").unwrap().changed);
    assert_eq!(tag(TagsAction::Remove, "a").unwrap().tags, ["b", "inline"]);
    assert_eq!(place.text("a.md"), "---\n# top\nstatus: done # now\ntags: [b]\n---\nText #inline\n");
    assert_eq!(tag(TagsAction::Add, "not a tag").unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(edit(FrontMatterAction::Set, None, Some(json!(1))).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(view.all_tags().unwrap().len(), 2);
}

#[test]
fn text_is_replaced_everywhere_or_not_at_all() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "one two one");
    let replace = |old: &str, new: &str, regex| {
        let (old_string, new_string) = (Secret::new(old.to_owned()), Secret::new(new.to_owned()));
        view.replace(&ReplaceText { path: path("a.md"), old_string, new_string, regex, if_match: None })
    };
    assert_eq!(replace("one", "1", false).unwrap().replacements, 2);
    assert_eq!(replace(r"(\d) (\w+)", "$2 ${1}", true).unwrap().replacements, 1);
    assert_eq!(place.text("a.md"), "two 1 1");
    assert_eq!(replace("none", "", false).unwrap_err().code(), Code::EditMismatch);
    assert_eq!(replace("(", "", true).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(replace("", "x", false).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(replace("1", &"x".repeat(9 << 20), false).unwrap_err().code(), Code::FileTooLarge);
    assert_eq!(place.text("a.md"), "two 1 1");
}

#[test]
fn a_note_is_deleted_only_if_confirmed() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "plan.md", "x");
    let refused = view.delete(&DeleteNote { path: path("plan.md"), confirm: false, if_match: None });
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    delete(&view, "plan.md").unwrap();
    let error = delete(&view, "plan.md").unwrap_err();
    assert_eq!(error.code(), Code::NoteNotFound);
    write(&view, "plan.md", "x");
    let error = try_read(&view, "plam.md").unwrap_err();
    assert_eq!(error.remedy().unwrap(), "did you mean \"plan.md\"?");
}

#[test]
fn several_notes_are_read_at_once_with_their_own_errors() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "---\nk: 1\n---\nx");
    place.by_hand("b.md", "---\nk: [\n---\ny");
    let paths = ["a.md", "b.md", "c.md", "../d.md"].map(str::to_owned).to_vec();
    let batch = BatchRead { paths: paths.clone(), include_content: true, include_frontmatter: true };
    let notes = view.batch_read(&batch).unwrap().notes;
    assert_eq!(notes[0].frontmatter.as_ref().unwrap().get("k"), Some(&json!(1)));
    assert_eq!(notes[1].content.as_deref(), Some("---\nk: [\n---\ny"));
    let codes: Vec<_> = notes.iter().map(|note| note.error.as_ref().map(|error| error.code)).collect();
    let expected = [None, Some(Code::InvalidArgument), Some(Code::NoteNotFound), Some(Code::InvalidArgument)];
    assert_eq!(codes, expected);
    let none = BatchRead { paths: Vec::new(), ..batch.clone() };
    assert!(view.batch_read(&none).is_err());
    assert!(view.batch_read(&BatchRead { paths: vec!["a.md".to_owned(); 11], ..batch }).is_err());
}

#[test]
fn folders_are_listed_and_notes_counted() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a/x.md", "123");
    write(&view, "a/b/y.md", "12");
    write(&view, "cards/m.json", "{}");
    place.by_hand(".obsidian/app.json", "{}");
    place.by_hand(".git/config", "x");
    let list = |at: &str, recursive| {
        let listing = view.list(&ListNotes { path: folder(at), recursive }).unwrap();
        listing.entries.into_iter().map(|entry| (entry.path, entry.is_dir, entry.size)).collect::<Vec<_>>()
    };
    let entry = |path: &str, is_dir, size| (path.to_owned(), is_dir, size);
    assert_eq!(list("", false), [entry("a", true, 0), entry("cards", true, 0)]);
    assert_eq!(
        list("a", true),
        [entry("a/b", true, 0), entry("a/b/y.md", false, 2), entry("a/x.md", false, 3)]
    );
    let missing = view.list(&ListNotes { path: folder("none"), recursive: false }).unwrap_err();
    assert_eq!(missing.code(), Code::NoteNotFound);
    let stats = view.stats(&ReadStats { recent_count: Some(1) }).unwrap();
    assert_eq!((stats.total_notes, stats.total_folders, stats.total_size_bytes), (2, 3, 5));
    assert_eq!(stats.recent_files.len(), 1);
}

#[test]
fn a_member_sees_its_folder_and_what_is_shared_and_nothing_else() {
    let place = Place::new();
    let notes = place.open();
    let everyone = all(&notes);
    write(&everyone, "teams/blue/plan.md", "secret word of blue [[../red/plan]]");
    write(&everyone, "teams/red/plan.md", "secret word of red");
    write(&everyone, "shared/rules.md", "secret word of all [[teams/red/plan]]");
    let red = notes.view(Scope::folders(vec![folder("teams/red")], vec![folder("shared")]), None);
    assert_eq!(found(&red, "secret word").len(), 2);
    assert_eq!(try_read(&red, "teams/blue/plan.md").unwrap_err().code(), Code::NotPermitted);
    assert_eq!(try_read(&red, "teams/blue/none.md").unwrap_err().code(), Code::NotPermitted);
    assert_eq!(
        write_with(&red, "shared/rules.md", "x", WriteMode::Append, None).unwrap_err().code(),
        Code::NotPermitted
    );
    assert_eq!(backlinks(&red, "teams/red/plan.md"), ["shared/rules.md"]);
    let tops = red.list(&ListNotes { path: folder(""), recursive: true }).unwrap();
    let paths: Vec<_> = tops.entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["shared", "shared/rules.md", "teams", "teams/red", "teams/red/plan.md"]);
    assert_eq!(red.stats(&ReadStats::default()).unwrap().total_notes, 2);
    assert_eq!(red.graph(&ReadGraph {}).unwrap().nodes.len(), 2);
    // A move does not change what the member may not change, nor tell where that is.
    let moved = relocate(&red, "teams/red/plan.md", "teams/red/goal.md").unwrap();
    assert_eq!((moved.rewritten.len(), moved.notes_left), (0, 2));
    assert_eq!(relocate(&red, "teams/red/goal.md", "shared/goal.md").unwrap_err().code(), Code::NotPermitted);
    assert_eq!(place.text("shared/rules.md"), "secret word of all [[teams/red/plan]]");
}

#[test]
fn disabled_or_nested_directories_are_refused() {
    let place = Place::new();
    let disabled = NotesConfig { enabled: false, ..place.config() };
    assert_eq!(Notes::open(disabled).unwrap_err().code(), Code::Unsupported);
    let inside = NotesConfig { state: place.host("state"), ..place.config() };
    assert_eq!(Notes::open(inside).unwrap_err().code(), Code::InvalidArgument);
    assert!(!place.host("state").exists());
}
