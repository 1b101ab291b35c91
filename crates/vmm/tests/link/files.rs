//! Files and trees.

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Channel, ErrorKind, GuestError, Kind, Request, Response, TreeEntry, TreeItem, TreeKind, TreeOptions,
    WINDOW,
};
use agentiso_vmm::link::{LinkError, TreeReader, WriteOptions};

use super::{acquainted, assert_violation, metadata};

#[tokio::test]
async fn a_file_is_read_with_its_metadata_and_to_its_end() {
    let (guest, mut script) = acquainted().await;
    let mut reader = guest.read_file("/etc/motd", 3, Some(8)).await.unwrap();
    let (stream, request) = script.request().await.unwrap();
    assert_eq!(request, Request::ReadFile { path: b"/etc/motd".to_vec(), offset: 3, length: Some(8) });
    script.respond(stream, &Response::Metadata(metadata(11))).await.unwrap();
    script.data(stream, Channel::Main, b"good day").await.unwrap();
    script.send(Kind::Eof, Channel::Main, false, stream, &[]).await.unwrap();
    script.finish(stream, &Response::Done).await.unwrap();
    assert_eq!(reader.metadata().await.unwrap().size, 11);
    assert_eq!(reader.next().await.unwrap().unwrap(), "good day");
    assert_eq!(reader.next().await.unwrap(), None);
    assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn more_file_content_than_requested_ends_the_session() {
    let (guest, mut script) = acquainted().await;
    let mut reader = guest.read_file("/dev/zero", 0, Some(4)).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    script.respond(stream, &Response::Metadata(metadata(0))).await.unwrap();
    script.data(stream, Channel::Main, b"12345").await.unwrap();
    assert_violation(&reader.next().await.unwrap_err());
}

#[tokio::test]
async fn a_file_is_written_and_its_length_confirmed() {
    let (guest, mut script) = acquainted().await;
    let options = WriteOptions { mode: Some(0o600), ..WriteOptions::default() };
    let mut writer = guest.write_file("/tmp/a", options).await.unwrap();
    writer.write(b"one ").await.unwrap();
    writer.write(b"two").await.unwrap();
    let finishing = tokio::spawn(writer.finish());
    let (stream, _) = script.request().await.unwrap();
    let mut content = Vec::new();
    loop {
        let frame = script.frame().await.unwrap();
        match frame.kind {
            Kind::Data => content.extend(frame.payload),
            kind => {
                assert_eq!(kind, Kind::Eof);
                break;
            }
        }
    }
    assert_eq!(content, b"one two");
    script.finish(stream, &Response::Written { bytes: 7 }).await.unwrap();
    assert_eq!(finishing.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_write_that_fails_midway_reports_the_reason() {
    let (guest, mut script) = acquainted().await;
    let mut writer = guest.write_file("/full", WriteOptions::default()).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    let writing = tokio::spawn(async move { writer.write(&vec![0; 2 * WINDOW as usize]).await });
    script.expect(Kind::Data).await.unwrap();
    let full = GuestError { kind: ErrorKind::NoSpace, errno: None, message: "write /full".to_owned() };
    script.finish(stream, &Response::Error(full)).await.unwrap();
    assert_eq!(writing.await.unwrap().unwrap_err().code(), Code::DiskFull);
}

#[tokio::test]
async fn dropping_an_unfinished_write_cancels_it() {
    let (guest, mut script) = acquainted().await;
    let mut writer = guest.write_file("/tmp/a", WriteOptions::default()).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    writer.write(b"half").await.unwrap();
    script.expect(Kind::Data).await.unwrap();
    drop(writer);
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
}

fn entry(path: &str, kind: TreeKind) -> TreeEntry {
    TreeEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        modified_ns: 1,
        xattrs: Vec::new(),
    }
}

async fn collect(reader: &mut TreeReader) -> Result<Vec<TreeItem>, LinkError> {
    let mut items = Vec::new();
    while let Some(item) = reader.next().await? {
        items.push(item);
    }
    Ok(items)
}

#[tokio::test]
async fn a_tree_written_by_one_side_is_read_by_the_other() {
    let (guest, mut script) = acquainted().await;
    let (root, file) = (entry("", TreeKind::Directory), entry("a/b", TreeKind::File { size: 300_000 }));
    let content = vec![7; 300_000];
    let mut writer = guest.receive_tree("/srv", TreeOptions { owners: true }).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    writer.entry(&root).await.unwrap();
    writer.entry(&file).await.unwrap();
    assert!(matches!(writer.entry(&root).await, Err(LinkError::TreeContent(300_000))));
    writer.content(&content).await.unwrap();
    assert!(matches!(writer.content(b"x").await, Err(LinkError::TreeContent(1))));
    let finishing = tokio::spawn(writer.finish());
    let mut bytes = Vec::new();
    loop {
        let frame = script.frame().await.unwrap();
        if frame.kind == Kind::Eof {
            break;
        }
        bytes.extend(frame.payload);
    }
    script.finish(stream, &Response::Written { bytes: 300_000 }).await.unwrap();
    assert_eq!(finishing.await.unwrap().unwrap(), 300_000);

    let mut reader = guest.send_tree("/srv").await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    for piece in bytes.chunks(100_000) {
        script.data(stream, Channel::Main, piece).await.unwrap();
    }
    script.finish(stream, &Response::Done).await.unwrap();
    let items = collect(&mut reader).await.unwrap();
    assert_eq!(items[..2], [TreeItem::Entry(root), TreeItem::Entry(file)]);
    let received: Vec<u8> = items[2..].iter().flat_map(|item| content_of(item).to_vec()).collect();
    assert_eq!(received, content);
}

fn content_of(item: &TreeItem) -> &[u8] {
    match item {
        TreeItem::Content(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tree_with_an_unsafe_path_or_without_an_end_ends_the_session() {
    let mut climbing = Vec::new();
    agentiso_proto::encode_entry(&entry("../x", TreeKind::Directory), &mut climbing).unwrap();
    let mut unfinished = Vec::new();
    agentiso_proto::encode_entry(&entry("x", TreeKind::Directory), &mut unfinished).unwrap();
    for bytes in [climbing, unfinished] {
        let (guest, mut script) = acquainted().await;
        let mut reader = guest.send_tree("/srv").await.unwrap();
        let (stream, _) = script.request().await.unwrap();
        script.data(stream, Channel::Main, &bytes).await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
        assert_violation(&collect(&mut reader).await.unwrap_err());
        assert_eq!(reader.next().await.unwrap(), None);
    }
}
