//! Notes and names that were made to do harm.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use agentiso_core::{Code, Explain};
use agentiso_notes::*;

use crate::support::*;

#[test]
fn symbolic_links_are_never_followed() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("outside")).unwrap();
    fs::write(place.dir.path().join("outside/secret.md"), "secret").unwrap();
    symlink("../outside", place.host("out")).unwrap();
    symlink("../outside/secret.md", place.host("link.md")).unwrap();
    symlink("loop.md", place.host("loop.md")).unwrap();
    place.by_hand("real/a.md", "x");
    symlink("real", place.host("alias")).unwrap();
    let notes = place.open();
    let view = all(&notes);
    for (path, code) in [
        ("out/secret.md", Code::InvalidArgument),
        ("link.md", Code::InvalidArgument),
        ("loop.md", Code::InvalidArgument),
        ("alias/a.md", Code::InvalidArgument),
    ] {
        assert_eq!(try_read(&view, path).unwrap_err().code(), code, "{path}");
        write_with(&view, path, "y", WriteMode::Append, None).unwrap_err();
        delete(&view, path).unwrap_err();
        relocate(&view, path, "elsewhere.md").unwrap_err();
    }
    write_with(&view, "out/new.md", "y", WriteMode::Overwrite, None).unwrap_err();
    relocate(&view, "real/a.md", "out/a.md").unwrap_err();
    assert_eq!(fs::read_dir(place.dir.path().join("outside")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(place.dir.path().join("outside/secret.md")).unwrap(), "secret");
    assert_eq!(found(&view, "secret"), Vec::<String>::new());
    assert_eq!(notes.scan().unwrap().skipped, 4);
    assert_eq!(place.text("real/a.md"), "x");
}

#[test]
fn names_never_lead_out_or_into_the_files_of_other_programs() {
    let place = Place::new();
    let view = all(&place.open());
    for json in [
        "../x.md",
        "/etc/passwd",
        ".git/hooks/pre-commit",
        "a/.obsidian/plugins/x/main.js",
        "a\0b",
        "a/../../b",
    ] {
        assert!(NotePath::parse(json).is_err(), "{json}");
    }
    let config = NotesConfig { exclude_dirs: vec!["private".to_owned()], ..place.config() };
    place.by_hand("a/private/x.md", "word");
    let excluded = all(&Notes::open(config).unwrap());
    assert_eq!(try_read(&excluded, "a/private/x.md").unwrap_err().code(), Code::InvalidArgument);
    write_with(&excluded, "private/new.md", "x", WriteMode::Overwrite, None).unwrap_err();
    assert_eq!(found(&excluded, "word"), Vec::<String>::new());
    assert!(excluded.list(&ListNotes { path: folder("a/private"), recursive: true }).is_err());
    drop(view);
}

#[test]
fn files_with_names_or_contents_that_are_no_text_are_left_alone() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"bad\xff.md");
    fs::write(place.host("").join(name), "x").unwrap();
    place.by_hand("a\nb.md", "x");
    place.by_hand("latin.md", b"caf\xe9 [[x]]");
    place.by_hand("x.md", "[[latin]]");
    let notes = place.open();
    let view = all(&notes);
    assert_eq!(notes.scan().unwrap().skipped, 2);
    let error = try_read(&view, "latin.md").unwrap_err();
    assert_eq!(error.code(), Code::FileNotText);
    assert!(error.to_string().contains("byte 3"), "{error}");
    assert_eq!(
        write_with(&view, "latin.md", "y", WriteMode::Append, None).unwrap_err().code(),
        Code::FileNotText
    );
    let problems = view.stats(&ReadStats::default()).unwrap().problems;
    assert_eq!(problems[0].path, "latin.md");
    // It can be moved, deleted and restored without loss.
    relocate(&view, "latin.md", "other.md").unwrap();
    assert_eq!(place.text("x.md"), "[[other]]");
    delete(&view, "other.md").unwrap();
    undo(&view, "other.md").unwrap();
    assert_eq!(fs::read(place.host("other.md")).unwrap(), b"caf\xe9 [[x]]");
    write(&view, "other.md", "text");
    undo(&view, "other.md").unwrap();
    assert_eq!(fs::read(place.host("other.md")).unwrap(), b"caf\xe9 [[x]]");
}

#[test]
fn pipes_and_folders_are_no_notes_and_block_nobody() {
    let place = Place::new();
    let pipe = place.host("pipe.md");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    fs::create_dir(place.host("folder.md")).unwrap();
    let view = all(&place.open());
    for path in ["pipe.md", "folder.md"] {
        assert_eq!(try_read(&view, path).unwrap_err().code(), Code::InvalidArgument);
        write_with(&view, path, "x", WriteMode::Overwrite, None).unwrap_err();
        delete(&view, path).unwrap_err();
    }
    write(&view, "a.md", "x");
    write_with(&view, "a.md/b.md", "x", WriteMode::Overwrite, None).unwrap_err();
    assert_eq!(try_read(&view, "a.md/b.md").unwrap_err().code(), Code::NoteNotFound);
}

#[test]
fn large_notes_are_bounded() {
    let place = Place::new();
    let view = all(&place.open());
    let largest = "word ".repeat((10 << 20) / 5);
    write(&view, "large.md", &largest);
    assert_eq!(read(&view, "large.md").size, 10 << 20);
    let error = write_with(&view, "large.md", "more", WriteMode::Append, None).unwrap_err();
    assert_eq!(error.code(), Code::FileTooLarge);
    place.by_hand("huge.md", "x".repeat((10 << 20) + 1));
    let view = all(&place.open());
    assert_eq!(try_read(&view, "huge.md").unwrap_err().code(), Code::FileTooLarge);
    assert_eq!(found(&view, "word"), ["large.md"]);
    assert_eq!(view.stats(&ReadStats::default()).unwrap().problems[0].path, "huge.md");
}

#[test]
fn texts_that_parsers_stumble_over_are_read_in_time() {
    let place = Place::new();
    let mega = 1 << 20;
    let samples = [
        "[[".repeat(mega / 2),
        "[".repeat(mega),
        "[a](".repeat(mega / 4),
        "`".repeat(mega),
        "` `` ``` ".repeat(mega / 9),
        "> ".repeat(mega / 2),
        "- ".repeat(mega / 2),
        "%% ".repeat(mega / 3),
        "<!-- ".repeat(mega / 5),
        "# a\n".repeat(mega / 4),
        "#a ".repeat(mega / 3),
        "](a.md)".repeat(mega / 7),
        "[[a]]".repeat(mega / 5),
        "---\n".repeat(mega / 4),
        format!("---\na: {}\n---\n", "[".repeat(100_000)),
        format!("---\n{}---\n", "a:\n ".repeat(1000)),
        format!("---\na: &a [x]\n{}---\n", "b: *a\n".repeat(10_000)),
        format!("---\n{}\n---\n", "? ".repeat(50_000)),
        format!("---\na: |\n{}\n---\n", " x\n".repeat(50_000)),
        "\r".repeat(mega),
        "\u{feff}".repeat(mega / 3),
    ];
    for (number, text) in samples.iter().enumerate() {
        place.by_hand(&format!("{number}.md"), text);
    }
    let notes = place.open();
    let view = all(&notes);
    let stats = view.stats(&ReadStats::default()).unwrap();
    assert_eq!(stats.total_notes, samples.len() as u64);
    // Notes with invalid front matter can be read, found and corrected.
    assert!(stats.problems.iter().any(|problem| problem.path == "14.md"), "{:?}", stats.problems);
    assert_eq!(read(&view, "14.md").content, samples[14]);
    let json = view.read(&ReadNote { path: path("14.md"), format: NoteFormat::Json }).unwrap();
    assert_eq!(json.frontmatter, None);
    assert!(json.problem.is_some_and(|problem| problem.starts_with("line 2")));
    relocate(&view, "12.md", "moved.md").unwrap();
}

#[test]
fn a_damaged_index_is_rebuilt_and_a_damaged_history_is_reported() {
    let place = Place::new();
    write(&all(&place.open()), "a.md", "alpha");
    let damage = |name: &str| {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(place.dir.path().join(format!("state/{name}{suffix}")));
        }
        fs::write(place.dir.path().join(format!("state/{name}")), "garbage ".repeat(1000)).unwrap();
    };
    damage("index.db");
    assert_eq!(found(&all(&place.open()), "alpha"), ["a.md"]);
    damage("history.db");
    let error = Notes::open(place.config()).unwrap_err();
    assert_eq!(error.code(), Code::DataDamaged);
    assert_eq!(place.text("a.md"), "alpha");
}
