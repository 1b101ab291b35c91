//! Operations on files.

use std::collections::BTreeSet;

use agentiso_core::Code;
use agentiso_vfs::{
    Changed, FileOp, FindQuery, GrepQuery, NewContent, NodeKind, StateRef, Time, VfsError, View, parse_path,
};

use crate::support::*;

impl Place {
    fn run(&self, operation: FileOp) -> Result<Changed, VfsError> {
        self.vaults.change("v", &[operation])
    }

    fn view(&self) -> View {
        self.vaults.view("v", &StateRef::Now).unwrap()
    }

    fn tag(&self, at: &str, tag: &str) {
        self.run(FileOp::AddTag { path: path(at), tag: tag.to_owned() }).unwrap();
    }
}

fn append(at: &str, text: &str) -> FileOp {
    FileOp::Append { path: path(at), content: NewContent::Bytes(text.into()) }
}

fn remove(at: &str, recursive: bool) -> FileOp {
    FileOp::Remove { path: path(at), recursive, force: false }
}

fn copy(from: &str, to: &str, replace: bool) -> FileOp {
    FileOp::Copy { from: path(from), to: path(to), recursive: true, replace }
}

fn rename(from: &str, to: &str, replace: bool) -> FileOp {
    FileOp::Move { from: path(from), to: path(to), replace }
}

fn link(at: &str, target: &str) -> FileOp {
    FileOp::Symlink { path: path(at), target: target.into(), replace: false }
}

#[test]
fn appending_creates_and_extends() {
    let place = Place::with_vault();
    place.run(append("log", "a\n")).unwrap();
    place.run(append("log", "b\n")).unwrap();
    assert_eq!(place.read("v", "log"), "a\nb\n");
    let big = "x".repeat(600_000);
    place.write("v", "big", &big);
    place.run(append("big", &big)).unwrap();
    assert_eq!(place.view().stat(&path("big"), false).unwrap().size, 1_200_000);
}

#[test]
fn writing_keeps_the_mode_and_needs_a_directory() {
    let place = Place::with_vault();
    place.write("v", "script", "1");
    place.run(FileOp::SetMode { path: path("script"), mode: 0o755 }).unwrap();
    place.write("v", "script", "2");
    assert_eq!(place.view().stat(&path("script"), false).unwrap().mode, 0o755);
    assert_eq!(code(place.run(FileOp::write(&path("no/file"), ""))), Code::FileNotFound);
    assert_eq!(code(place.run(FileOp::write(&path("script/file"), ""))), Code::NotADirectory);
    assert_eq!(code(place.run(FileOp::write(&path(""), ""))), Code::NotAFile);
    assert_eq!(
        code(place.run(FileOp::SetMode { path: path("script"), mode: 0o10000 })),
        Code::InvalidArgument
    );
    let time = Time { seconds: 5, nanos: 7 };
    place.run(FileOp::SetTime { path: path("script"), time }).unwrap();
    assert_eq!(place.view().stat(&path("script"), false).unwrap().mtime, time);
}

#[test]
fn several_operations_are_one_change_or_none() {
    let place = Place::with_vault();
    let before = place.vaults.info("v").unwrap();
    let operations = [
        FileOp::MakeDirectory { path: path("a/b"), parents: true, mode: None },
        FileOp::write(&path("a/b/c"), "1"),
        rename("a/b", "a/d", false),
        remove("missing", false),
    ];
    assert_eq!(code(place.vaults.change("v", &operations)), Code::FileNotFound);
    assert_eq!(place.vaults.info("v").unwrap(), before);
    let changed = place.vaults.change("v", &operations[..3]).unwrap();
    assert_eq!((changed.revision, changed.totals.files, changed.totals.directories), (1, 1, 2));
    assert_eq!(place.texts("v"), map(&[("/a/d/c", "1")]));
}

#[test]
fn directories_are_made_and_removed_with_care() {
    let place = Place::with_vault();
    let make = |at: &str, parents| FileOp::MakeDirectory { path: path(at), parents, mode: Some(0o700) };
    assert_eq!(code(place.run(make("a/b", false))), Code::FileNotFound);
    place.run(make("a/b", true)).unwrap();
    place.run(make("a/b", true)).unwrap();
    assert_eq!(place.view().stat(&path("a/b"), false).unwrap().mode, 0o700);
    assert_eq!(code(place.run(make("a", false))), Code::FileExists);
    place.write("v", "f", "");
    assert_eq!(code(place.run(make("f/x", true))), Code::NotADirectory);
    assert_eq!(code(place.run(remove("a", false))), Code::NotAFile);
    assert_eq!(code(place.run(remove("", true))), Code::InvalidArgument);
    place.run(remove("a", true)).unwrap();
    assert_eq!(code(place.run(remove("a", true))), Code::FileNotFound);
    let force = FileOp::Remove { path: path("a/b"), recursive: false, force: true };
    assert!(!place.run(force).unwrap().is_changed);
}

#[test]
fn names_with_wildcards_are_only_names() {
    // Paths were once compared by patterns in which "_" and "%" match anything.
    let place = Place::with_vault();
    for at in ["a_b/f", "axb/f", "a%/f", "abc/f"] {
        place.write("v", at, "1");
    }
    place.run(remove("a_b", true)).unwrap();
    place.run(rename("a%", "moved", false)).unwrap();
    let left: Vec<_> = place.texts("v").into_keys().collect();
    assert_eq!(left, ["/abc/f", "/axb/f", "/moved/f"]);
}

#[test]
fn names_are_bytes() {
    let place = Place::with_vault();
    let odd = path(b"\xff\xfe new\nline");
    place.run(FileOp::write(&odd, "x")).unwrap();
    let list = place.view().list(&path("")).unwrap();
    assert_eq!(list.first().unwrap().name(), b"\xff\xfe new\nline");
    let error = place.run(FileOp::MakeDirectory { path: odd, parents: false, mode: None }).unwrap_err();
    assert_eq!(error.to_string(), "/\\xff\\xfe new\\nline already exists");
}

#[test]
fn moving_replaces_files_if_asked_to_and_enters_directories() {
    let place = Place::with_vault();
    for (at, text) in [("a", "a"), ("b", "b"), ("dir/x", "x"), ("full/y", "y")] {
        place.write("v", at, text);
    }
    assert_eq!(code(place.run(rename("a", "b", false))), Code::FileExists);
    place.run(rename("a", "b", true)).unwrap();
    place.run(rename("b", "dir", false)).unwrap();
    assert_eq!(place.texts("v"), map(&[("/dir/b", "a"), ("/dir/x", "x"), ("/full/y", "y")]));
    assert_eq!(code(place.run(rename("dir", "dir/below", false))), Code::InvalidArgument);
    assert_eq!(code(place.run(rename("dir", "full/y", true))), Code::NotADirectory);
    assert_eq!(code(place.run(rename("none", "x", false))), Code::FileNotFound);
    place.run(rename("dir", "full", false)).unwrap();
    assert_eq!(place.texts("v"), map(&[("/full/dir/b", "a"), ("/full/dir/x", "x"), ("/full/y", "y")]));
    assert!(!place.run(rename("full/y", "full/y", false)).unwrap().is_changed);
}

#[test]
fn copies_are_independent() {
    let place = Place::with_vault();
    place.write("v", "a/f", "1");
    let flat = FileOp::Copy { from: path("a"), to: path("b"), recursive: false, replace: false };
    assert_eq!(code(place.run(flat)), Code::NotAFile);
    place.run(copy("a", "b", false)).unwrap();
    place.write("v", "a/f", "2");
    assert_eq!(place.texts("v"), map(&[("/a/f", "2"), ("/b/f", "1")]));
    assert_eq!(code(place.run(copy("a/f", "b/f", false))), Code::FileExists);
    place.run(copy("a/f", "b/f", true)).unwrap();
    assert_eq!(place.read("v", "b/f"), "2");
}

#[test]
fn links_are_followed_inside_the_vault_only() {
    let place = Place::with_vault();
    place.write("v", "real/file", "text");
    for (at, target) in
        [("short", "real"), ("abs", "/real/file"), ("up", "../../../etc/passwd"), ("loop", "loop")]
    {
        place.run(link(at, target)).unwrap();
    }
    assert_eq!(place.read("v", "short/file"), "text");
    assert_eq!(place.read("v", "abs"), "text");
    let view = place.view();
    assert_eq!(code(view.read(&path("up"), None, 10)), Code::FileNotFound);
    assert_eq!(code(view.read(&path("loop"), None, 10)), Code::InvalidArgument);
    assert_eq!(view.stat(&path("abs"), false).unwrap().kind, NodeKind::Symlink);
    assert_eq!(view.stat(&path("abs"), false).unwrap().target.unwrap(), b"/real/file");
    place.run(FileOp::write(&path("abs"), "new")).unwrap();
    assert_eq!(place.read("v", "real/file"), "new");
    place.run(remove("short", false)).unwrap();
    assert_eq!(place.read("v", "real/file"), "new");
    assert_eq!(code(place.run(link("abs", "x"))), Code::FileExists);
    assert_eq!(code(place.run(link("y", ""))), Code::InvalidArgument);
}

#[test]
fn trees_are_shown_to_a_depth() {
    let place = Place::with_vault();
    place.write("v", "a/b/c", "1");
    let tree = place.view().tree_of(&path(""), Some(2)).unwrap();
    let a = &tree.children.as_ref().unwrap()[0];
    let b = &a.children.as_ref().unwrap()[0];
    assert_eq!((b.stat.path.to_string().as_str(), &b.children), ("/a/b", &None));
    let whole = place.view().tree_of(&path("a"), None).unwrap();
    assert_eq!(whole.children.unwrap()[0].children.as_ref().unwrap().len(), 1);
}

fn found(place: &Place, query: FindQuery) -> Vec<String> {
    place.view().find(&query).unwrap().list.into_iter().map(|stat| stat.path.to_string()).collect()
}

#[test]
fn finding_combines_conditions_and_refuses_bad_ones() {
    let place = Place::with_vault();
    for (at, text) in [("a/one.rs", "12345"), ("a/two.txt", "1"), ("b/c/three.rs", "123")] {
        place.write("v", at, text);
    }
    let name = |name: &str| FindQuery { name: Some(name.to_owned()), ..FindQuery::default() };
    assert_eq!(found(&place, name("*.rs")), ["/a/one.rs", "/b/c/three.rs"]);
    assert_eq!(found(&place, name("*.{rs,txt}")).len(), 3);
    assert_eq!(found(&place, FindQuery { min_size: Some(4), ..name("*.rs") }), ["/a/one.rs"]);
    assert_eq!(found(&place, FindQuery { depth: Some(1), ..FindQuery::default() }), ["/a", "/b"]);
    assert_eq!(
        found(&place, FindQuery { kind: Some(NodeKind::Directory), path: path("b"), ..FindQuery::default() }),
        ["/b/c"]
    );
    let old = FindQuery { older: Some(Time { seconds: 10, nanos: 0 }), ..FindQuery::default() };
    assert_eq!(found(&place, old), Vec::<String>::new());
    assert_eq!(code(place.view().find(&name("[a"))), Code::InvalidArgument);
    assert_eq!(code(place.view().find(&FindQuery { path: path("none"), ..name("*") })), Code::FileNotFound);
    let limited = place.view().find(&FindQuery { limit: 1, ..FindQuery::default() }).unwrap();
    assert_eq!((limited.list.len(), limited.total), (1, 6));
}

#[test]
fn an_unknown_tag_finds_nothing() {
    let place = Place::with_vault();
    place.write("v", "a", "");
    place.write("v", "b", "");
    place.tag("a", "x");
    let tag = |tag: &str| FindQuery { tag: Some(tag.to_owned()), ..FindQuery::default() };
    assert_eq!(found(&place, tag("x")), ["/a"]);
    assert_eq!(found(&place, tag("unknown")), Vec::<String>::new());
}

#[test]
fn tags_and_metadata_follow_moves_forks_and_checkpoints() {
    let place = Place::with_vault();
    place.write("v", "dir/a", "1");
    place.tag("dir/a", "red");
    let set = FileOp::SetMetadata { path: path("dir/a"), key: "owner".into(), value: "me".into() };
    place.run(set).unwrap();
    place
        .vaults
        .save_checkpoint("v", &agentiso_vfs::SaveCheckpoint { name: Some("c".into()), ..Default::default() })
        .unwrap();
    place.fork("v", "f");
    place.run(rename("dir", "moved", false)).unwrap();
    place.run(copy("moved/a", "copied", false)).unwrap();
    let red = BTreeSet::from(["red".to_owned()]);
    assert_eq!(
        (place.view().tags(&path("moved/a")), place.view().tags(&path("copied"))),
        (red.clone(), red.clone())
    );
    assert!(place.view().tags(&path("dir/a")).is_empty());
    let fork = place.vaults.view("f", &StateRef::Now).unwrap();
    assert_eq!(fork.metadata(&path("dir/a")).get("owner").unwrap(), "me");
    place.run(remove("moved", true)).unwrap();
    assert_eq!(place.view().all_tags().get("red"), Some(&1));
    let restore = agentiso_vfs::Restore { state: StateRef::Checkpoint("c".into()), ..Default::default() };
    place.vaults.restore("v", &restore).unwrap();
    assert_eq!(place.view().tags(&path("dir/a")), red);
    place.vaults.rename_tag("v", "red", "blue").unwrap();
    assert_eq!(place.view().all_tags().into_keys().collect::<Vec<_>>(), ["blue"]);
    place.vaults.delete_tag("v", "blue").unwrap();
    assert_eq!(code(place.vaults.delete_tag("v", "blue")), Code::InvalidArgument);
    assert_eq!(code(place.run(FileOp::AddTag { path: path("none"), tag: "x".into() })), Code::FileNotFound);
}

#[test]
fn grep_finds_lines_and_says_what_it_left_out() {
    let place = Place::with_vault();
    place.write("v", "a/one.txt", "alpha\nBeta\n");
    place.write("v", "b.rs", "beta();\n");
    place.write("v", "binary", "beta\0");
    let grep = |query: GrepQuery| place.view().grep(&query).unwrap();
    let lines = |found: &agentiso_vfs::Grepped| -> Vec<(String, u64)> {
        found.matches.iter().map(|found| (found.path.to_string(), found.line)).collect()
    };
    let all = grep(GrepQuery { ignore_case: true, ..GrepQuery::new("beta") });
    assert_eq!(lines(&all), [("/a/one.txt".to_owned(), 2), ("/b.rs".to_owned(), 1)]);
    assert_eq!((all.binary, all.searched, all.is_truncated), (1, 2, false));
    let named = grep(GrepQuery { name: Some("*.rs".into()), ..GrepQuery::new("(?i)BETA") });
    assert_eq!(lines(&named), [("/b.rs".to_owned(), 1)]);
    let one = grep(GrepQuery { limit: 1, ignore_case: true, ..GrepQuery::new("beta") });
    assert_eq!((one.matches.len(), one.is_truncated), (1, true));
    let file = grep(GrepQuery { path: path("b.rs"), ..GrepQuery::new("^beta") });
    assert_eq!(file.matches.first().unwrap().text, b"beta();");
    assert_eq!(code(place.view().grep(&GrepQuery::new("("))), Code::InvalidArgument);
}

#[test]
fn paths_cannot_leave_the_vault() {
    assert!(parse_path("/../x").is_err());
    assert_eq!(parse_path("/a/b/../c").unwrap(), path("a/c"));
}
