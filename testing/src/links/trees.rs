//! Directory trees in both directions.

use agentiso_core::ports::link::{
    ErrorKind, LinkError, TreeEntry, TreeItem, TreeKind, TreeOptions, WorkspaceLink,
};

use super::words::{refused, shell};

pub(super) async fn all(link: &dyn WorkspaceLink) {
    a_tree_comes_back_as_it_was_sent(link).await;
    a_file_that_is_shorter_than_announced_is_an_error(link).await;
    refused(sent(link, b"/root/no-such-tree").await, ErrorKind::NotFound);
    shell(link, "rm -r /root/tree").await;
}

fn entry(path: &str, kind: TreeKind, mode: u32) -> TreeEntry {
    TreeEntry {
        path: path.into(),
        kind,
        mode,
        uid: 0,
        gid: 0,
        modified_ns: 1_000_000_000,
        xattrs: Vec::new(),
    }
}

async fn a_tree_comes_back_as_it_was_sent(link: &dyn WorkspaceLink) {
    let entries = [
        (entry("dir", TreeKind::Directory, 0o755), None),
        (entry("dir/file", TreeKind::File { size: 7 }, 0o600), Some(&b"content"[..])),
        (entry("empty", TreeKind::File { size: 0 }, 0o644), None),
        (entry("link", TreeKind::Symlink { target: b"dir/file".to_vec() }, 0o777), None),
    ];
    let mut writer = link.receive_tree(b"/root/tree", TreeOptions::default()).await.expect("a writer");
    for (entry, content) in &entries {
        writer.entry(entry).await.expect("an entry");
        if let Some(content) = content {
            writer.content(content).await.expect("content");
        }
    }
    assert_eq!(writer.finish().await.expect("a tree"), 7);
    assert_eq!(shell(link, "cat /root/tree/link").await, "content");

    let mut back = sent(link, b"/root/tree").await.expect("a tree");
    back.sort();
    let expected = [
        ("", "directory", 0o755, ""),
        ("dir", "directory", 0o755, ""),
        ("dir/file", "file", 0o600, "content"),
        ("empty", "file", 0o644, ""),
        ("link", "link", 0o777, "dir/file"),
    ];
    let expected: Vec<Seen> = expected
        .into_iter()
        .map(|(path, kind, mode, content)| (path.to_owned(), kind, mode, content.to_owned()))
        .collect();
    assert_eq!(back, expected);
}

async fn a_file_that_is_shorter_than_announced_is_an_error(link: &dyn WorkspaceLink) {
    let mut writer = link.receive_tree(b"/root/tree/short", TreeOptions::default()).await.expect("a writer");
    writer.entry(&entry("file", TreeKind::File { size: 10 }, 0o644)).await.expect("an entry");
    writer.content(b"short").await.expect("content");
    let error = writer.finish().await.expect_err("half a file");
    assert!(matches!(error, LinkError::TreeContent(5)), "{error:?}");
}

/// Path, kind, mode and content or target.
type Seen = (String, &'static str, u32, String);

async fn sent(link: &dyn WorkspaceLink, path: &[u8]) -> Result<Vec<Seen>, LinkError> {
    let mut reader = link.send_tree(path).await?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut seen: Vec<Seen> = Vec::new();
    while let Some(item) = reader.next().await? {
        match item {
            TreeItem::Entry(entry) => {
                let (kind, target) = match &entry.kind {
                    TreeKind::Directory => ("directory", String::new()),
                    TreeKind::File { .. } => ("file", String::new()),
                    TreeKind::Symlink { target } => ("link", text(target)),
                    other => panic!("{other:?}"),
                };
                seen.push((text(&entry.path), kind, entry.mode & 0o7777, target));
            }
            TreeItem::Content(bytes) => seen.last_mut().expect("a file").3.push_str(&text(&bytes)),
            TreeItem::End => break,
        }
    }
    Ok(seen)
}
