//! Merges, conflict by conflict.

use std::collections::BTreeMap;

use agentiso_store::{
    ConflictKind, Edit, MergeOptions, Merged, Node, Session, Sides, TextStyle, TreeId, TreePath, edit,
    lookup, merge,
};

use crate::support::*;

fn changed(session: &Session, tree: TreeId, edits: Vec<(&str, Option<&str>)>) -> TreeId {
    let edits = edits.into_iter().map(|(name, text)| {
        let change = text.map_or(Edit::Remove, |text| Edit::Put(file(session, text.as_bytes(), 7)));
        (path(name), change)
    });
    edit(session, tree, edits.collect()).unwrap()
}

fn merged(session: &Session, base: TreeId, ours: TreeId, theirs: TreeId) -> Merged {
    merge(session, Sides { base, ours, theirs }, &MergeOptions::default()).unwrap()
}

fn kinds(merged: &Merged) -> Vec<(String, ConflictKind)> {
    merged.conflicts.iter().map(|conflict| (conflict.path.to_string(), conflict.kind)).collect()
}

#[test]
fn different_files_of_one_directory_are_both_taken() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(&session, &[("d/a", "1"), ("d/b", "1"), ("d/c", "1")]);
    let ours = changed(&session, base, vec![("d/a", Some("ours")), ("d/new", Some("n"))]);
    let theirs = changed(&session, base, vec![("d/b", Some("theirs")), ("d/c", None)]);
    let result = merged(&session, base, ours, theirs);
    assert_eq!(kinds(&result), []);
    let expected = [("/d/a", "ours"), ("/d/b", "theirs"), ("/d/new", "n")];
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    assert_eq!(texts(&session, result.tree), expected);
}

#[test]
fn each_conflict_is_named_and_nothing_changed_is_lost() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(
        &session,
        &[("both", "1"), ("we-delete", "1"), ("they-delete", "1"), ("type", "1"), ("dir/x", "1")],
    );
    let mut ours = changed(
        &session,
        base,
        vec![
            ("both", Some("ours")),
            ("added", Some("ours")),
            ("we-delete", None),
            ("they-delete", Some("ours")),
            ("dir", Some("a file now")),
        ],
    );
    let link = Node::Symlink { meta: meta(0o777, 3), target: (*b"elsewhere").into() };
    ours = edit(&session, ours, BTreeMap::from([(path("type"), Edit::Put(link))])).unwrap();
    let theirs = changed(
        &session,
        base,
        vec![
            ("both", Some("theirs")),
            ("added", Some("theirs")),
            ("we-delete", Some("theirs")),
            ("they-delete", None),
            ("type", Some("theirs")),
            ("dir/x", Some("theirs")),
        ],
    );
    let result = merged(&session, base, ours, theirs);
    let expected = [
        ("/added", ConflictKind::BothAdded),
        ("/both", ConflictKind::BothModified),
        ("/dir", ConflictKind::DirectoryFile),
        ("/they-delete", ConflictKind::DeleteModify),
        ("/type", ConflictKind::TypeChange),
        ("/we-delete", ConflictKind::DeleteModify),
    ];
    assert_eq!(kinds(&result), expected.map(|(path, kind)| (path.to_owned(), kind)));
    let texts = texts(&session, result.tree);
    assert_eq!(texts.get("/both").unwrap(), "ours");
    assert_eq!(texts.get("/we-delete").unwrap(), "theirs");
    assert_eq!(texts.get("/they-delete").unwrap(), "ours");
    assert_eq!(texts.get("/dir").unwrap(), "a file now");
}

#[test]
fn a_deleted_directory_conflicts_only_with_a_change_inside() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(&session, &[("d/a", "1"), ("keep", "1")]);
    let deleted = changed(&session, base, vec![("d", None)]);
    let touched =
        edit(&session, base, BTreeMap::from([(path("d"), Edit::SetMeta(meta(0o755, 99)))])).unwrap();
    let modified = changed(&session, base, vec![("d/a", Some("2"))]);
    for (ours, theirs) in [(deleted, touched), (touched, deleted)] {
        let result = merged(&session, base, ours, theirs);
        assert_eq!(kinds(&result), []);
        assert_eq!(lookup(&session, result.tree, &path("d")).unwrap(), None);
    }
    for (ours, theirs) in [(deleted, modified), (modified, deleted)] {
        let result = merged(&session, base, ours, theirs);
        assert_eq!(kinds(&result), [("/d".to_owned(), ConflictKind::DeleteModify)]);
        assert_eq!(texts(&session, result.tree).get("/d/a").unwrap(), "2");
    }
}

#[test]
fn mode_and_content_are_merged_each_by_itself() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(&session, &[("run", "1")]);
    let Some(Node::File(mut executable)) = lookup(&session, base, &path("run")).unwrap() else { panic!() };
    executable.meta.mode = 0o755;
    let ours =
        edit(&session, base, BTreeMap::from([(path("run"), Edit::Put(Node::File(executable)))])).unwrap();
    let theirs = changed(&session, base, vec![("run", Some("2"))]);
    let result = merged(&session, base, ours, theirs);
    assert_eq!(kinds(&result), []);
    let Some(Node::File(found)) = lookup(&session, result.tree, &path("run")).unwrap() else { panic!() };
    assert_eq!((found.meta.mode, found.size), (0o755, 1));
    assert_eq!(texts(&session, result.tree).get("/run").unwrap(), "2");
    executable.meta.mode = 0o700;
    let other =
        edit(&session, base, BTreeMap::from([(path("run"), Edit::Put(Node::File(executable)))])).unwrap();
    assert_eq!(kinds(&merged(&session, base, ours, other)), [("/run".to_owned(), ConflictKind::Metadata)]);
}

#[test]
fn text_is_merged_by_lines_on_request() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(&session, &[("clean", "a\nb\nc\n"), ("marked", "a\n"), ("binary", "a\0")]);
    let ours = changed(
        &session,
        base,
        vec![("clean", Some("A\nb\nc\n")), ("marked", Some("x\n")), ("binary", Some("b\0"))],
    );
    let theirs = changed(
        &session,
        base,
        vec![("clean", Some("a\nb\nC\n")), ("marked", Some("y\n")), ("binary", Some("c\0"))],
    );
    let text = TextStyle::Markers { ours: "mine".to_owned(), theirs: "yours".to_owned() };
    let options = MergeOptions { text, ..MergeOptions::default() };
    let result = merge(&session, Sides { base, ours, theirs }, &options).unwrap();
    let found: Vec<_> =
        result.conflicts.iter().map(|conflict| (conflict.path.to_string(), conflict.has_markers)).collect();
    assert_eq!(found, [("/binary".to_owned(), false), ("/marked".to_owned(), true)]);
    let texts = texts(&session, result.tree);
    assert_eq!(texts.get("/clean").unwrap(), "A\nb\nC\n");
    assert_eq!(texts.get("/marked").unwrap(), "<<<<<<< mine\nx\n=======\ny\n>>>>>>> yours\n");
}

#[test]
fn a_scope_takes_only_the_changes_below_it() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let base = tree(&session, &[("a/x", "1"), ("b/x", "1")]);
    let theirs = changed(&session, base, vec![("a/x", Some("2")), ("b/x", Some("2"))]);
    let options = MergeOptions { scope: path("a"), ..MergeOptions::default() };
    let result = merge(&session, Sides { base, ours: base, theirs }, &options).unwrap();
    let texts = texts(&session, result.tree);
    assert_eq!((texts.get("/a/x").unwrap().as_str(), texts.get("/b/x").unwrap().as_str()), ("2", "1"));
    let nowhere = MergeOptions { scope: path("c"), ..MergeOptions::default() };
    assert!(merge(&session, Sides { base, ours: base, theirs }, &nowhere).is_err());
    assert!(TreePath::parse("../a").is_err());
}
