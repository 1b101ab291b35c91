//! Finding files, and lines in files.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use agentiso_proto::{
    ErrorKind, FileKind, Find, FoundEntry, Grep, GrepMatch, GrepSummary, MAX_FOUND, MAX_LINE, Request,
    Response,
};

use crate::host::{Heard, Host};

fn raw(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

/// A directory with these files. The content of each is its path.
fn tree(paths: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for path in paths {
        let file = directory.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, path).unwrap();
    }
    directory
}

fn find(host: &mut Host, find: Find) -> (Vec<FoundEntry>, bool) {
    let heard = host.call(&Request::Find(find));
    let Some(Response::FindDone { truncated }) = heard.last else { panic!("{:?}", heard.last) };
    let batches = heard.responses.into_iter().map(|response| match response {
        Response::Found(entries) => entries,
        other => panic!("{other:?}"),
    });
    (batches.flatten().collect(), truncated)
}

fn paths(host: &mut Host, root: &Path, glob: &str) -> Vec<String> {
    let request = Find { root: raw(root), glob: glob.to_owned(), max: MAX_FOUND, hidden: false };
    let (entries, truncated) = find(host, request);
    assert!(!truncated);
    entries.into_iter().map(|entry| String::from_utf8(entry.path).unwrap()).collect()
}

fn lines_of(heard: Heard) -> (Vec<GrepMatch>, GrepSummary) {
    let Some(Response::GrepDone(summary)) = heard.last else { panic!("{:?}", heard.last) };
    let batches = heard.responses.into_iter().map(|response| match response {
        Response::Matches(matches) => matches,
        other => panic!("{other:?}"),
    });
    (batches.flatten().collect(), summary)
}

fn grep(host: &mut Host, grep: Grep) -> (Vec<GrepMatch>, GrepSummary) {
    lines_of(host.call(&Request::Grep(grep)))
}

fn pattern(root: &Path, pattern: &str) -> Grep {
    Grep { root: raw(root), pattern: pattern.to_owned(), max_matches: MAX_FOUND, ..Grep::default() }
}

/// Files and line numbers.
fn places(matches: &[GrepMatch]) -> Vec<(&str, u64)> {
    matches.iter().map(|found| (std::str::from_utf8(&found.path).unwrap(), found.line_number)).collect()
}

#[test]
fn files_are_found_in_path_order() {
    let directory = tree(&["b.rs", "a/x.rs", "a/deep/er/y.rs", "a.rs", "a0.rs", "a/z.txt", ".git/h.rs"]);
    let mut host = Host::start();
    let root = directory.path();
    assert_eq!(paths(&mut host, root, "*.rs"), ["a.rs", "a0.rs", "b.rs"]);
    assert_eq!(paths(&mut host, root, "**/*.rs"), ["a.rs", "a/deep/er/y.rs", "a/x.rs", "a0.rs", "b.rs"]);
    assert_eq!(paths(&mut host, root, "a/**/*.{rs,txt}"), ["a/deep/er/y.rs", "a/x.rs", "a/z.txt"]);
    assert_eq!(paths(&mut host, root, "?"), ["a"]);
    assert_eq!(paths(&mut host, root, "[!a]*"), ["b.rs"]);
    assert_eq!(paths(&mut host, root, "nothing"), [""; 0]);
    let hidden = Find { root: raw(root), glob: "**/h.rs".to_owned(), max: 9, hidden: true };
    assert_eq!(find(&mut host, hidden).0.len(), 1);
}

#[test]
fn matches_have_metadata_and_links_are_not_followed() {
    let directory = tree(&["inside/file"]);
    let outside = tree(&["secret"]);
    let root = directory.path();
    std::os::unix::fs::symlink(outside.path(), root.join("link")).unwrap();
    std::os::unix::fs::symlink(root, root.join("inside/loop")).unwrap();
    fs::set_permissions(root.join("inside/file"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut host = Host::start();
    let all = Find { root: raw(root), glob: "**".to_owned(), max: MAX_FOUND, hidden: false };
    let (entries, _) = find(&mut host, all);
    let kinds: Vec<_> =
        entries.iter().map(|entry| (String::from_utf8_lossy(&entry.path), entry.kind)).collect();
    let expected = [
        ("inside", FileKind::Directory),
        ("inside/file", FileKind::File),
        ("inside/loop", FileKind::Symlink),
        ("link", FileKind::Symlink),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.into(), kind)));
    assert_eq!((entries[1].size, entries[1].mode), (11, 0o640));
    assert!(entries[1].modified_ns > 0);
}

#[test]
fn the_limit_returns_the_first_matches() {
    let names: Vec<String> = (0..3000).map(|number| format!("file-{number:05}-{}", "x".repeat(60))).collect();
    let directory = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut host = Host::start();
    for (max, truncated) in [(2999, true), (3000, false), (u32::MAX, false), (0, true)] {
        let request = Find { root: raw(directory.path()), glob: "file*".to_owned(), max, hidden: false };
        let (entries, was_truncated) = find(&mut host, request);
        assert_eq!((entries.len(), was_truncated), ((max as usize).min(3000), truncated));
        assert!(entries.iter().zip(&names).all(|(entry, name)| entry.path == name.as_bytes()));
    }
}

#[test]
fn kernel_file_systems_are_skipped_unless_the_search_starts_in_them() {
    let mut host = Host::start();
    for glob in ["proc/*", "sys/*", "dev/*"] {
        assert_eq!(paths(&mut host, Path::new("/"), glob), [""; 0], "{glob}");
    }
    assert_eq!(paths(&mut host, Path::new("/"), "proc"), ["proc"]);
    assert_eq!(paths(&mut host, Path::new("/proc"), "self"), ["self"]);
}

#[test]
fn a_deep_tree_is_walked_up_to_the_path_limit() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    host.exec(crate::host::shell(&format!(
        "cd {}; i=0; while [ $i -lt 60 ]; do d=$(printf '%0100d' $i); mkdir $d; cd -P $d; i=$((i+1)); done",
        directory.path().display()
    )))
    .assert_code(0);
    let all = Find { root: raw(directory.path()), glob: "**".to_owned(), max: MAX_FOUND, hidden: false };
    let (entries, truncated) = find(&mut host, all);
    assert_eq!((entries.len(), truncated), (40, true));
}

#[test]
fn invalid_find_requests_are_rejected() {
    let directory = tree(&["file"]);
    let mut host = Host::start();
    let request = |root: Vec<u8>, glob: &str| {
        Request::Find(Find { root, glob: glob.to_owned(), max: 1, hidden: false })
    };
    let root = raw(directory.path());
    for glob in ["[", "{a", &"{".repeat(3000), &"x".repeat(5000)] {
        assert_eq!(host.call(&request(root.clone(), glob)).error(), ErrorKind::Invalid);
    }
    assert_eq!(host.call(&request(b"relative".to_vec(), "*")).error(), ErrorKind::Invalid);
    assert_eq!(host.call(&request(raw(&directory.path().join("missing")), "*")).error(), ErrorKind::NotFound);
    assert_eq!(host.call(&request(raw(&directory.path().join("file")), "*")).error(), ErrorKind::NotFound);
}

#[test]
fn matching_lines_have_numbers_and_context() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("a"), "one\ntwo\nthree needle\nfour\nfive needle\nsix").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/b"), b"needle \xff without an end").unwrap();
    fs::write(root.join("crlf"), "x\r\nneedle\r\n").unwrap();
    let mut host = Host::start();
    let (matches, summary) = grep(&mut host, pattern(root, "n[e]+dle"));
    assert_eq!(places(&matches), [("a", 3), ("a", 5), ("crlf", 2), ("sub/b", 1)]);
    assert_eq!(matches[3].line, b"needle \xff without an end");
    assert_eq!(summary, GrepSummary { files_searched: 3, files_too_large: 0, truncated: false });
    let (matches, _) = grep(&mut host, Grep { context: 2, ..pattern(&root.join("a"), "needle") });
    let words = |lines: &[Vec<u8>]| {
        lines.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(places(&matches), [("", 3), ("", 5)]);
    assert_eq!(words(&matches[0].before), ["one", "two"]);
    assert_eq!(words(&matches[0].after), ["four", "five needle"]);
    assert_eq!(words(&matches[1].before), ["three needle", "four"]);
    assert_eq!(words(&matches[1].after), ["six"]);
}

#[test]
fn patterns_can_be_plain_text_case_insensitive_and_unicode() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("file"), "a.c\nabc\nABC\nÄpfel\nx = 1\n").unwrap();
    let mut host = Host::start();
    let mut numbers = |request: Grep| -> Vec<u64> {
        grep(&mut host, request).0.iter().map(|found| found.line_number).collect()
    };
    assert_eq!(numbers(pattern(root, "a.c")), [1, 2]);
    assert_eq!(numbers(Grep { fixed: true, ..pattern(root, "a.c") }), [1]);
    assert_eq!(numbers(Grep { ignore_case: true, ..pattern(root, "a.c") }), [1, 2, 3]);
    assert_eq!(numbers(Grep { ignore_case: true, ..pattern(root, "äp") }), [4]);
    assert_eq!(numbers(pattern(root, r"^\w+ = \d$")), [5]);
    assert_eq!(numbers(pattern(root, r"^[A-ZÄ]\w")), [3, 4]);
}

#[test]
fn only_the_requested_files_are_searched() {
    let directory = tree(&["a.rs", "sub/b.rs", "sub/c.txt", ".hidden/d.rs", "e.rs"]);
    let root = directory.path();
    fs::write(root.join("binary.rs"), b"needle\0").unwrap();
    fs::File::create(root.join("large.rs")).unwrap().set_len(64 * 1024 * 1024 + 1).unwrap();
    std::os::unix::fs::symlink("a.rs", root.join("link.rs")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(root.join("fifo.rs")).status().unwrap();
    assert!(fifo.success());
    let mut host = Host::start();
    let everywhere = Grep { glob: Some("*.rs".to_owned()), ..pattern(root, ".") };
    let (matches, summary) = grep(&mut host, everywhere.clone());
    assert_eq!(places(&matches), [("a.rs", 1), ("e.rs", 1), ("sub/b.rs", 1)]);
    assert_eq!((summary.files_searched, summary.files_too_large), (3, 1));
    let (matches, _) = grep(&mut host, Grep { hidden: true, ..everywhere });
    assert_eq!(matches[0].path, b".hidden/d.rs");
    let (matches, _) = grep(&mut host, Grep { glob: Some("sub/*".to_owned()), ..pattern(root, ".") });
    assert_eq!(places(&matches), [("sub/b.rs", 1), ("sub/c.txt", 1)]);
}

#[test]
fn matches_are_limited_per_file_and_in_total() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for name in ["a", "b"] {
        fs::write(root.join(name), "x\n".repeat(100)).unwrap();
    }
    let mut host = Host::start();
    for (max_matches, max_per_file, expected, truncated) in [
        (150, None, 150, true),
        (200, None, 200, false),
        (10, Some(3), 6, false),
        (5, Some(3), 5, true),
        (9, Some(0), 0, false),
    ] {
        let request = Grep { max_matches, max_per_file, ..pattern(root, "x") };
        let (matches, summary) = grep(&mut host, request);
        assert_eq!((matches.len(), summary.truncated), (expected, truncated));
    }
    // The last admitted match has its complete context too.
    let (matches, _) = grep(&mut host, Grep { max_per_file: Some(1), context: 2, ..pattern(root, "x") });
    assert_eq!(matches.iter().map(|found| found.after.len()).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn the_size_of_a_response_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("file"), format!("{}\n", "x".repeat(3000)).repeat(2000)).unwrap();
    let mut host = Host::start();
    let (matches, summary) = grep(&mut host, Grep { context: 50, ..pattern(root, "x") });
    assert!(summary.truncated && !matches.is_empty());
    assert!(matches.iter().all(|found| found.line.len() == MAX_LINE));
    let bytes: usize = matches
        .iter()
        .flat_map(|found| found.before.iter().chain(&found.after).chain([&found.line]))
        .map(Vec::len)
        .sum();
    assert!(bytes <= 8 * 1024 * 1024, "{bytes}");
}

#[test]
fn a_line_longer_than_any_buffer_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let long = "y".repeat(1_000_000);
    fs::write(root.join("file"), format!("{long}needle{long}\nshort needle\n{long}")).unwrap();
    let mut host = Host::start();
    let (matches, _) = grep(&mut host, pattern(root, "needle"));
    assert_eq!(places(&matches), [("file", 1), ("file", 2)]);
    assert_eq!((matches[0].line.len(), matches[1].line.as_slice()), (MAX_LINE, &b"short needle"[..]));
    // The ends of a piece are not the ends of the line; a match longer than a piece is not found.
    for (anchored, lines) in [("^y", vec![1, 3]), ("y$", vec![1, 3]), ("^y+$", vec![]), (r"\by", vec![1, 3])]
    {
        let (matches, _) = grep(&mut host, pattern(root, anchored));
        assert_eq!(places(&matches).iter().map(|place| place.1).collect::<Vec<_>>(), lines, "{anchored}");
    }
}

#[test]
fn hostile_patterns_are_rejected_or_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("file"), format!("{}b\n", "a".repeat(100_000))).unwrap();
    let mut host = Host::start();
    let nested = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
    for hostile in ["(", "[", "*", "a{1000}{1000}{1000}", r"\p{NoSuchClass}", &nested, &"x".repeat(5000)] {
        let heard = host.call(&Request::Grep(pattern(root, hostile)));
        assert_eq!(heard.error(), ErrorKind::Invalid, "{hostile:.20}");
    }
    // Takes exponential time in a backtracking engine.
    let (matches, _) = grep(&mut host, pattern(root, "^(a+)+$"));
    assert_eq!(matches, []);
    let (matches, _) = grep(&mut host, pattern(root, "(a*)*b"));
    assert_eq!(matches.len(), 1);
    let too_much = Grep { context: 51, ..pattern(root, "a") };
    assert_eq!(host.call(&Request::Grep(too_much)).error(), ErrorKind::Invalid);
    let missing = pattern(&root.join("missing"), "a");
    assert_eq!(host.call(&Request::Grep(missing)).error(), ErrorKind::NotFound);
}

#[test]
fn a_cancelled_search_stops_in_the_middle_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("a"), "needle in the first file\n".repeat(5000)).unwrap();
    fs::write(root.join("b"), format!("{}\n", "a".repeat(200)).repeat(100_000)).unwrap();
    // Enough hard links that searching all of them would take for ever.
    for number in 0..1000 {
        fs::hard_link(root.join("b"), root.join(format!("b{number}"))).unwrap();
    }
    let mut host = Host::start();
    let stream = host.open(&Request::Grep(pattern(root, "needle")));
    host.wait_until(stream, |heard| !heard.responses.is_empty());
    host.cancel(stream);
    assert_eq!(host.finish(stream).error(), ErrorKind::Cancelled);
}
