//! Searches.

use agentiso_core::ports::link::{ErrorKind, FileKind, Find, Grep, WorkspaceLink};

use super::words::{refused, shell};

const ROOT: &[u8] = b"/root/search";

pub(super) async fn all(link: &dyn WorkspaceLink) {
    shell(
        link,
        "mkdir -p /root/search/src/deep /root/search/.git
echo 'fn one' > /root/search/src/a.rs
echo 'two' >> /root/search/src/a.rs
echo 'Fn three' >> /root/search/src/a.rs
echo 'fn four' > /root/search/src/deep/b.rs
echo 'fn five' > /root/search/notes.txt
echo 'fn hidden' > /root/search/.git/c.rs",
    )
    .await;
    files_are_found_by_their_paths(link).await;
    lines_are_found_in_files(link).await;
    shell(link, "rm -r /root/search").await;
}

async fn files_are_found_by_their_paths(link: &dyn WorkspaceLink) {
    let find = |glob: &str| Find { root: ROOT.to_vec(), glob: glob.to_owned(), max: 100, hidden: false };
    let paths = async |find: Find| -> Vec<String> {
        let found = link.find(find).await.expect("a search").entries;
        found.into_iter().map(|entry| String::from_utf8(entry.path).expect("text")).collect()
    };
    assert_eq!(paths(find("**/*.rs")).await, ["src/a.rs", "src/deep/b.rs"]);
    assert_eq!(paths(find("*.rs")).await, Vec::<String>::new(), "a star stays within a name");
    assert_eq!(paths(find("src/*")).await, ["src/a.rs", "src/deep"]);
    assert_eq!(paths(find("{notes,other}.t?t")).await, ["notes.txt"]);
    let hidden = Find { hidden: true, ..find("**/*.rs") };
    assert_eq!(paths(hidden).await, [".git/c.rs", "src/a.rs", "src/deep/b.rs"]);
    let some = link.find(Find { max: 1, ..find("**/*.rs") }).await.expect("a search");
    assert_eq!((some.entries.len(), some.truncated), (1, true));
    let one = link.find(find("notes.txt")).await.expect("a search");
    assert_eq!((one.entries[0].kind, one.entries[0].size, one.truncated), (FileKind::File, 8, false));
    refused(link.find(Find { root: b"/no/such/place".to_vec(), ..find("*") }).await, ErrorKind::NotFound);
}

async fn lines_are_found_in_files(link: &dyn WorkspaceLink) {
    let grep = |pattern: &str| Grep {
        root: ROOT.to_vec(),
        pattern: pattern.to_owned(),
        max_matches: 100,
        ..Grep::default()
    };
    let lines = async |grep: Grep| -> Vec<(String, u64)> {
        let found = link.grep(grep).await.expect("a search").matches;
        found
            .into_iter()
            .map(|line| (String::from_utf8(line.path).expect("text"), line.line_number))
            .collect()
    };
    let at = |path: &str, line: u64| (path.to_owned(), line);
    assert_eq!(lines(grep("^fn")).await, [at("notes.txt", 1), at("src/a.rs", 1), at("src/deep/b.rs", 1)]);
    let rust = Grep { glob: Some("*.rs".to_owned()), ignore_case: true, ..grep("^FN") };
    assert_eq!(lines(rust.clone()).await, [at("src/a.rs", 1), at("src/a.rs", 3), at("src/deep/b.rs", 1)]);
    assert_eq!(
        lines(Grep { max_per_file: Some(1), ..rust }).await,
        [at("src/a.rs", 1), at("src/deep/b.rs", 1)]
    );
    assert_eq!(lines(Grep { fixed: true, ..grep("^fn") }).await, [], "it is plain text");
    let some = link.grep(Grep { max_matches: 2, ..grep("fn") }).await.expect("a search");
    assert_eq!((some.matches.len(), some.truncated), (2, true));
    let around = link.grep(Grep { context: 1, ..grep("^two") }).await.expect("a search");
    let found = &around.matches[0];
    assert_eq!(
        (found.line.as_slice(), found.before.len(), found.after[0].as_slice()),
        (&b"two"[..], 1, &b"Fn three"[..])
    );
    let single = Grep { root: b"/root/search/notes.txt".to_vec(), ..grep("five") };
    assert_eq!(lines(single).await, [at("", 1)]);
    refused(link.grep(grep("(")).await, ErrorKind::Invalid);
}
