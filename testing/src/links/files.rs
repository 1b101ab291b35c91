//! Single files and directories.

use agentiso_core::ports::link::{ErrorKind, FileKind, LinkError, WorkspaceLink, WriteOptions};

use super::words::{refused, shell};

const DIR: &[u8] = b"/root/files";

fn path(name: &str) -> Vec<u8> {
    [DIR, b"/", name.as_bytes()].concat()
}

pub(super) async fn all(link: &dyn WorkspaceLink) {
    link.mkdir(DIR, None, false).await.expect("a directory");
    content_comes_back_as_it_was(link).await;
    a_file_is_replaced_as_a_whole_or_not_at_all(link).await;
    options_are_kept(link).await;
    directories_are_made_and_listed(link).await;
    links_are_followed_only_if_asked(link).await;
    things_are_moved_and_removed(link).await;
    link.remove(DIR, true).await.expect("a removal");
    refused(link.stat(DIR, true).await, ErrorKind::NotFound);
}

async fn write(
    link: &dyn WorkspaceLink,
    path: &[u8],
    content: &[u8],
    options: WriteOptions,
) -> Result<u64, LinkError> {
    let mut writer = link.write_file(path, options).await?;
    for piece in content.chunks(100_000) {
        writer.write(piece).await?;
    }
    writer.finish().await
}

async fn read(
    link: &dyn WorkspaceLink,
    path: &[u8],
    offset: u64,
    length: Option<u64>,
) -> Result<Vec<u8>, LinkError> {
    let mut reader = link.read_file(path, offset, length).await?;
    let mut content = Vec::new();
    while let Some(piece) = reader.next().await? {
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

async fn content_comes_back_as_it_was(link: &dyn WorkspaceLink) {
    let content: Vec<u8> = (0..300_000u32).map(|number| number.to_le_bytes()[0] ^ 0x5a).collect();
    let file = path("content");
    assert_eq!(write(link, &file, &content, WriteOptions::default()).await.expect("a file"), 300_000);
    assert!(read(link, &file, 0, None).await.expect("content") == content);
    assert!(read(link, &file, 1000, Some(70_000)).await.expect("content") == content[1000..71_000]);
    assert_eq!(read(link, &file, 299_999, Some(10)).await.expect("content"), content[299_999..]);
    assert!(read(link, &file, 400_000, None).await.expect("content").is_empty(), "beyond its end is nothing");
    let mut reader = link.read_file(&file, 5, Some(1)).await.expect("a reader");
    let about = reader.metadata().await.expect("metadata");
    assert_eq!((about.kind, about.size, about.mode & 0o7777), (FileKind::File, 300_000, 0o644));
    refused(read(link, &path("missing"), 0, None).await, ErrorKind::NotFound);
    refused(read(link, DIR, 0, None).await, ErrorKind::Invalid);
}

async fn a_file_is_replaced_as_a_whole_or_not_at_all(link: &dyn WorkspaceLink) {
    let file = path("whole");
    write(link, &file, b"first", WriteOptions::default()).await.expect("a file");
    let mut writer = link.write_file(&file, WriteOptions::default()).await.expect("a writer");
    writer.write(b"half").await.expect("content");
    drop(writer);
    assert_eq!(read(link, &file, 0, None).await.expect("content"), b"first");
    write(link, &file, b"second", WriteOptions::default()).await.expect("a file");
    assert_eq!(read(link, &file, 0, None).await.expect("content"), b"second");
}

async fn options_are_kept(link: &dyn WorkspaceLink) {
    let (file, options) = (path("options"), WriteOptions::default());
    write(link, &file, b"one", WriteOptions { mode: Some(0o750), ..options }).await.expect("a file");
    write(link, &file, b"two", options).await.expect("a file");
    assert_eq!(link.stat(&file, true).await.expect("metadata").mode & 0o7777, 0o750, "a file keeps its mode");
    write(link, &file, b" three", WriteOptions { append: true, ..options }).await.expect("a file");
    assert_eq!(read(link, &file, 0, None).await.expect("content"), b"two three");
    let deep = path("a/b/c");
    refused(write(link, &deep, b"x", options).await, ErrorKind::NotFound);
    write(link, &deep, b"x", WriteOptions { parents: true, ..options }).await.expect("a file");
    assert_eq!(read(link, &deep, 0, None).await.expect("content"), b"x");
    refused(write(link, &path("a/b/c/d"), b"x", options).await, ErrorKind::NotFound);
}

async fn directories_are_made_and_listed(link: &dyn WorkspaceLink) {
    refused(link.mkdir(DIR, None, false).await, ErrorKind::Exists);
    link.mkdir(DIR, None, true).await.expect("it may exist");
    refused(link.mkdir(&path("x/y"), None, false).await, ErrorKind::NotFound);
    link.mkdir(&path("x/y"), Some(0o700), true).await.expect("a directory");
    let about = link.stat(&path("x/y"), false).await.expect("metadata");
    assert_eq!((about.kind, about.mode & 0o7777), (FileKind::Directory, 0o700));
    let mut names: Vec<String> = link
        .list(DIR)
        .await
        .expect("a list")
        .into_iter()
        .map(|entry| String::from_utf8(entry.name).expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["a", "content", "options", "whole", "x"]);
    refused(link.list(&path("missing")).await, ErrorKind::NotFound);
    refused(link.list(&path("whole")).await, ErrorKind::NotFound);
}

async fn links_are_followed_only_if_asked(link: &dyn WorkspaceLink) {
    shell(link, "ln -s whole /root/files/link; ln -s nowhere /root/files/broken").await;
    let about = link.stat(&path("link"), false).await.expect("metadata");
    assert_eq!((about.kind, about.target.as_deref()), (FileKind::Symlink, Some(&b"whole"[..])));
    assert_eq!(link.stat(&path("link"), true).await.expect("metadata").size, 6);
    assert_eq!(read(link, &path("link"), 0, None).await.expect("content"), b"second");
    link.stat(&path("broken"), false).await.expect("the link is there");
    refused(link.stat(&path("broken"), true).await, ErrorKind::NotFound);
}

async fn things_are_moved_and_removed(link: &dyn WorkspaceLink) {
    refused(link.rename(&path("missing"), &path("b"), true).await, ErrorKind::NotFound);
    refused(link.rename(&path("whole"), &path("options"), false).await, ErrorKind::Exists);
    link.rename(&path("whole"), &path("options"), true).await.expect("a replacement");
    assert_eq!(read(link, &path("options"), 0, None).await.expect("content"), b"second");
    link.rename(&path("a"), &path("moved"), false).await.expect("a directory moves");
    assert_eq!(read(link, &path("moved/b/c"), 0, None).await.expect("content"), b"x");
    refused(link.remove(&path("moved"), false).await, ErrorKind::Invalid);
    assert_eq!(read(link, &path("moved/b/c"), 0, None).await.expect("content"), b"x", "nothing was removed");
    link.remove(&path("moved"), true).await.expect("a removal");
    refused(link.remove(&path("moved"), true).await, ErrorKind::NotFound);
    link.remove(&path("link"), false).await.expect("a removal");
}
