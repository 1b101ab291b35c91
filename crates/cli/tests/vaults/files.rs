//! Files of a vault.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::place::{Place, texts};

#[test]
fn files_are_written_read_copied_moved_and_removed() {
    let place = Place::with_vault();
    let written = place.work("write", &["write", "/a.txt", "hello\n"]);
    assert_eq!((written["path"].as_str(), written["size"].as_u64()), (Some("/a.txt"), Some(6)));
    place.work("write", &["append", "/a.txt", "more\n"]);
    assert_eq!(place.work("cat", &["cat", "/a.txt"])["content"], "hello\nmore\n");
    place.work("cp", &["cp", "/a.txt", "/b.txt"]);
    place.work("mv", &["mv", "/b.txt", "/c.txt"]);
    place.fails("file_not_found", &["--vault", "work", "cat", "/b.txt"]);
    place.fails("file_exists", &["--vault", "work", "cp", "/a.txt", "/c.txt"]);
    place.work("cp", &["cp", "--force", "/a.txt", "/c.txt"]);
    place.work("rm", &["rm", "/a.txt", "/c.txt"]);
    place.fails("file_not_found", &["--vault", "work", "rm", "/a.txt"]);
    assert_eq!(place.work("rm", &["rm", "-f", "/a.txt"])["removed"], false);
}

#[test]
fn directories_are_made_listed_and_removed() {
    let place = Place::with_vault();
    place.work("mkdir", &["mkdir", "-p", "/src/lib"]);
    assert_eq!(place.work("mkdir", &["mkdir", "-p", "/src/lib"])["created"], false);
    place.fails("file_exists", &["--vault", "work", "mkdir", "/src"]);
    place.write("/src/lib/a.rs", "x");
    let listing = place.work("ls", &["ls", "/src/lib"]);
    assert_eq!(listing[0]["name"], "a.rs");
    assert_eq!(listing[0]["type"], "file");
    let all = place.work("ls", &["ls", "-R", "/"]);
    let paths: Vec<_> = all.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/src", "/src/lib", "/src/lib/a.rs"]);
    let tree = place.work("tree", &["tree"]);
    assert_eq!(tree["children"][0]["children"][0]["children"][0]["name"], "a.rs");
    assert_eq!(place.avfs(&["--vault", "work", "tree", "/src"]).stdout, "src\n└── lib/\n    └── a.rs\n");
    place.fails("not_a_file", &["--vault", "work", "rm", "/src"]);
    place.work("rm", &["rm", "-r", "/src"]);
    assert_eq!(place.work("pwd", &["pwd"])["path"], "/");
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let place = Place::with_vault();
    let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    let written = place.avfs_with_input(&["--json", "--vault", "work", "write", "--stdin", "/data"], &bytes);
    assert_eq!(written.value("write")["size"], bytes.len() as u64);
    let read = place.command(&["--vault", "work", "cat", "/data"]).output().unwrap();
    assert!(read.stdout == bytes, "{} bytes came back", read.stdout.len());
    let content = place.work("cat", &["cat", "/data"]);
    assert_eq!(content["encoding"], "lossy");
}

#[test]
fn names_can_have_any_bytes() {
    let place = Place::with_vault();
    let name = OsStr::from_bytes(b"/a\xff b");
    let mut command = place.command(&["--json", "--vault", "work", "write"]);
    assert!(command.arg(name).arg("x").output().unwrap().status.success());
    let listing = place.work("ls", &["ls"]);
    assert_eq!(listing[0]["name"], "a\u{fffd} b");
    assert_eq!(listing[0]["path_bytes"], "61ff2062");
}

#[test]
fn paths_stay_in_the_vault() {
    let place = Place::with_vault();
    place.write("/a/b.txt", "x");
    assert_eq!(place.cat("/a/../a/./b.txt"), "x");
    for outside in ["/..", "../x", "/a/../../etc/passwd"] {
        place.fails("invalid_argument", &["--vault", "work", "cat", outside]);
        place.fails("invalid_argument", &["--vault", "work", "write", outside, "x"]);
    }
}

#[test]
fn files_are_found_by_name_size_kind_tag_and_metadata() {
    let place = Place::with_vault();
    place.write("/src/main.rs", "fn main() {}");
    place.write("/src/lib.rs", "pub fn f() {}\n// TODO: g\n");
    place.write("/README.md", "read me");
    place.work("tag_change", &["tag", "/README.md", "docs"]);
    place.work("meta_change", &["meta", "/README.md", "lang", "en"]);
    let find = |words: &[&str]| {
        let found = place.work("find", &[&["find"], words].concat());
        let results = found["results"].as_array().unwrap().clone();
        results.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(find(&["/", "-n", "*.rs"]), ["/src/lib.rs", "/src/main.rs"]);
    assert_eq!(find(&["-t", "d"]), ["/src"]);
    assert_eq!(find(&["--min-size", "20"]), ["/src/lib.rs"]);
    assert_eq!(find(&["--tag", "docs"]), ["/README.md"]);
    assert_eq!(find(&["--meta", "lang=en"]), ["/README.md"]);
    // A filter that finds nothing, or that makes no sense, is never ignored.
    assert_eq!(find(&["--tag", "unknown"]), Vec::<String>::new());
    place.fails("invalid_argument", &["--vault", "work", "find", "/", "-n", "[a"]);
    place.fails("invalid_argument", &["--vault", "work", "find", "/", "-t", "sheep"]);
    let matches = place.work("grep", &["grep", "-n", "TODO", "/src"]);
    assert_eq!(
        (matches["matches"][0]["path"].as_str(), matches["matches"][0]["line_number"].as_u64()),
        (Some("/src/lib.rs"), Some(2))
    );
    place.fails("invalid_argument", &["--vault", "work", "grep", "(", "/"]);
    let hits = place.work("search", &["search", "todo"]);
    assert_eq!(hits["results"][0]["path"], "/src/lib.rs");
}

#[test]
fn tags_and_metadata_are_set_shown_renamed_and_removed() {
    let place = Place::with_vault();
    place.write("/a", "x");
    place.work("tag_change", &["tag", "/a", "raw"]);
    assert_eq!(texts(&place.work("tag", &["tag", "/a"])["tags"]), ["raw"]);
    place.work("tag_rename", &["tag", "--rename", "raw:source"]);
    assert_eq!(place.work("tag_list", &["tag", "--list-all"])["tags"][0]["name"], "source");
    place.work("tag_change", &["untag", "/a", "source"]);
    place.fails("file_not_found", &["--vault", "work", "tag", "/none", "x"]);
    place.work("meta_import", &["meta", "/a", "--import", r#"{"rows":"12","from":"here"}"#]);
    assert_eq!(place.work("meta_change", &["meta", "/a", "rows"])["value"], "12");
    place.work("meta_change", &["meta", "/a", "rows", "--delete"]);
    assert_eq!(place.work("meta", &["meta", "/a"])["metadata"], serde_json::json!({ "from": "here" }));
    place.fails("invalid_argument", &["--vault", "work", "meta", "/a", "--import", "[1]"]);
}

#[test]
fn details_of_a_file_are_shown() {
    let place = Place::with_vault();
    place.write("/a", "x");
    place.work("write", &["write", "--mode", "755", "/a", "y"]);
    let details = place.work("stat", &["stat", "/a"]);
    assert_eq!((details["mode"].as_str(), details["size"].as_u64()), (Some("0755"), Some(1)));
    let long = place.avfs(&["--vault", "work", "ls", "-l"]).stdout;
    assert!(long.starts_with("-rwxr-xr-x"), "{long}");
}
