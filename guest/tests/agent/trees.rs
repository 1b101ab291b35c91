//! Sending and receiving trees, including hostile ones.

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
};

use agentiso_proto::{
    ErrorKind, Request, Response, TreeDecoder, TreeEntry, TreeItem, TreeKind, TreeOptions, encode_entry,
};

use crate::host::{Heard, Host, shell};

fn raw(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn entry(path: &str, kind: TreeKind) -> TreeEntry {
    TreeEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o755,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        modified_ns: 1_000_000_000,
        xattrs: Vec::new(),
    }
}

/// Encodes a tree of entries, each file with its content.
fn tree(items: &[(TreeEntry, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (entry, content) in items {
        encode_entry(entry, &mut bytes).unwrap();
        bytes.extend_from_slice(content);
    }
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes
}

fn file(path: &str, content: &'static [u8]) -> (TreeEntry, &'static [u8]) {
    (entry(path, TreeKind::File { size: content.len() as u64 }), content)
}

fn plain(path: &str, kind: TreeKind) -> (TreeEntry, &'static [u8]) {
    (entry(path, kind), b"")
}

fn link(path: &str, target: &str) -> (TreeEntry, &'static [u8]) {
    plain(path, TreeKind::Symlink { target: target.as_bytes().to_vec() })
}

fn receive(host: &mut Host, target: &Path, bytes: &[u8]) -> Heard {
    let options = TreeOptions { owners: rustix::process::geteuid().is_root() };
    let stream = host.open(&Request::ReceiveTree { path: raw(target), options });
    host.send(stream, bytes);
    host.send_eof(stream);
    host.finish(stream)
}

fn send(host: &mut Host, path: &Path) -> Vec<u8> {
    let heard = host.call(&Request::SendTree { path: raw(path) });
    heard.assert_done();
    heard.main
}

/// Decodes a tree into its entries and their contents, in path order.
fn items(bytes: &[u8]) -> Vec<(TreeEntry, Vec<u8>)> {
    let mut decoder = TreeDecoder::new();
    let mut rest = bytes;
    let mut items: Vec<(TreeEntry, Vec<u8>)> = Vec::new();
    while let Some(item) = decoder.next(&mut rest).unwrap() {
        match item {
            TreeItem::Entry(entry) => items.push((entry, Vec::new())),
            TreeItem::Content(content) => items.last_mut().unwrap().1.extend(content),
            TreeItem::End => {}
        }
    }
    assert!(decoder.is_complete());
    items.sort_by(|a, b| a.0.path.cmp(&b.0.path));
    items
}

#[test]
fn a_tree_survives_a_round_trip() {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("source"), directory.path().join("new/target"));
    let mut host = Host::start();
    let script = format!(
        "mkdir {0} && cd {0} && mkdir -p d/e locked && echo one > a && echo two > d/b && ln a d/e/same && ln a same
         ln -s ../a d/link && ln -s /nowhere dangling && mkfifo pipe && : > empty && head -c 700000 /dev/urandom > big
         echo x > locked/f && chmod 4750 d/b && touch -d @86400.123456789 a d/e d && touch -hd @99999 dangling && chmod 555 locked",
        source.display()
    );
    host.exec(shell(&script)).assert_code(0);
    for name in ["a", "d"] {
        let file = fs::File::open(source.join(name)).unwrap();
        rustix::fs::fsetxattr(&file, "user.agentiso", b"\0value\xff", rustix::fs::XattrFlags::empty())
            .unwrap();
    }
    let sent = send(&mut host, &source);
    let heard = receive(&mut host, &target, &sent);
    assert_eq!(heard.last, Some(Response::Written { bytes: 4 + 4 + 2 + 700_000 }));
    // Which of several names is sent first depends on the directory order; that they are one file does not.
    let comparable = |bytes: &[u8]| {
        let mut items = items(bytes);
        for (entry, content) in &mut items {
            if matches!(entry.path.as_slice(), b"a" | b"same" | b"d/e/same") {
                entry.kind = TreeKind::Fifo;
                entry.xattrs.clear();
                content.clear();
            }
        }
        items
    };
    let again = send(&mut host, &target);
    assert_eq!(comparable(&again), comparable(&sent));
    let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    assert!(inode("a") == inode("same") && inode("a") == inode("d/e/same"));
    let modified = fs::metadata(target.join("d/e")).unwrap();
    assert_eq!((modified.mtime(), modified.mtime_nsec()), (86_400, 123_456_789));
    assert_eq!(fs::metadata(target.join("locked")).unwrap().mode() & 0o7777, 0o555);
    let mut value = [0; 16];
    let file = fs::File::open(target.join("a")).unwrap();
    let len = rustix::fs::fgetxattr(&file, "user.agentiso", &mut value).unwrap();
    assert_eq!(&value[..len], b"\0value\xff");
    // Otherwise an ordinary user could not remove the temporary directory.
    for tree in [&source, &target] {
        fs::set_permissions(tree.join("locked"), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_tree_of_many_small_files_is_transferred_in_bounded_memory() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let names: Vec<String> = (0..20_000).map(|number| format!("d{}/f{number}", number % 100)).collect();
    let content = [7_u8; 300];
    let mut bytes = Vec::new();
    for name in &names {
        encode_entry(&entry(name, TreeKind::File { size: 300 }), &mut bytes).unwrap();
        bytes.extend_from_slice(&content);
    }
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    let mut host = Host::start();
    let before = host.status();
    assert_eq!(receive(&mut host, &target, &bytes).last, Some(Response::Written { bytes: 300 * 20_000 }));
    let sent = items(&send(&mut host, &target));
    assert_eq!(sent.len(), 1 + 100 + 20_000);
    assert!(
        sent.iter().all(|(entry, content)| matches!(entry.kind, TreeKind::Directory) || content == &[7; 300])
    );
    let after = host.status();
    assert_eq!(after.open_fds, before.open_fds);
    assert!(
        after.rss_kib < before.rss_kib + 8 * 1024,
        "grew from {} to {} KiB",
        before.rss_kib,
        after.rss_kib
    );
}

#[test]
fn a_single_file_can_be_sent_as_a_tree() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "content").unwrap();
    let sent = items(&send(&mut Host::start(), &path));
    let [(entry, content)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((entry.path.as_slice(), &entry.kind), (&b""[..], &TreeKind::File { size: 7 }));
    assert_eq!(content, b"content");
}

#[test]
fn a_file_truncated_while_it_is_sent_fails_the_transfer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = fs::File::create(&path).unwrap();
    file.set_len(64 * 1024 * 1024).unwrap();
    let mut host = Host::start();
    let stream = host.open(&Request::SendTree { path: raw(&path) });
    host.stall(stream);
    host.wait_until(stream, |heard| !heard.main.is_empty());
    file.set_len(1024).unwrap();
    for _ in 0..64 {
        host.grant(stream, agentiso_proto::Channel::Main, 1024 * 1024);
    }
    assert_eq!(host.finish(stream).error(), ErrorKind::Invalid);
}

#[test]
fn links_in_a_hostile_tree_cannot_escape_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let (outside, target) = (directory.path().join("outside"), directory.path().join("target"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "intact").unwrap();
    let out = outside.to_str().unwrap();
    let hostile = [
        vec![link("x", out), file("x/victim", b"overwritten")],
        vec![link("x", "../outside"), file("x/victim", b"overwritten")],
        vec![link("x", out), plain("x/victim", TreeKind::Removed)],
        vec![link("x", out), plain("x", TreeKind::Emptied)],
        vec![link("x", out), plain("x/new", TreeKind::Directory)],
        vec![link("x", "../outside/victim"), file("x", b"overwritten")],
        vec![
            link("x", &format!("{out}/victim")),
            plain("y", TreeKind::Hardlink { target: b"x".to_vec() }),
            file("y", b"no"),
        ],
        vec![plain("y", TreeKind::Hardlink { target: b"x/victim".to_vec() }), link("x", out)],
        vec![
            link("x", out),
            plain("y", TreeKind::Hardlink { target: b"x/victim".to_vec() }),
            file("y", b"overwritten"),
        ],
        vec![plain("a", TreeKind::Directory), link("a", out), file("a/victim", b"overwritten")],
        vec![
            plain("a", TreeKind::Directory),
            file("a/f", b"1"),
            link("a", "../outside"),
            file("a/victim", b"overwritten"),
        ],
    ];
    let mut host = Host::start();
    for items in &hostile {
        // Some of these are fine inside the target, some fail; none may have an effect outside.
        receive(&mut host, &target, &tree(items));
        assert_eq!(fs::read(outside.join("victim")).unwrap(), b"intact", "{items:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{items:?}");
        if target.exists() {
            fs::remove_dir_all(&target).unwrap();
        }
    }
}

#[test]
fn unsafe_paths_and_broken_streams_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let mut host = Host::start();
    for path in ["../x", "/x", "a/../x", "a//x", "."] {
        assert_eq!(
            receive(&mut host, &target, &tree(&[file(path, b"x")])).error(),
            ErrorKind::Invalid,
            "{path}"
        );
    }
    assert_eq!(receive(&mut host, &target, b"\xff\xff\xff\xff").error(), ErrorKind::Invalid);
    assert_eq!(receive(&mut host, &target, b"\x02\0\0\0\xff\xff").error(), ErrorKind::Invalid);
    assert_eq!(receive(&mut host, &target, b"").error(), ErrorKind::Invalid);
    assert_eq!(receive(&mut host, &target, &tree(&[file("", b"x")])).error(), ErrorKind::Invalid);
    let whole = tree(&[plain("", TreeKind::Directory), file("f", b"content")]);
    assert_eq!(receive(&mut host, &target, &whole[..whole.len() - 8]).error(), ErrorKind::Invalid);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "an incomplete file was left behind");
}

#[test]
fn entries_replace_existing_ones_and_directories_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path();
    fs::create_dir_all(target.join("dir/sub")).unwrap();
    fs::create_dir_all(target.join("kept")).unwrap();
    fs::write(target.join("kept/old"), "old").unwrap();
    fs::write(target.join("file"), "old").unwrap();
    symlink("file", target.join("link")).unwrap();
    let bytes = tree(&[
        file("dir", b"now a file"),
        plain("file", TreeKind::Directory),
        file("link", b"a file now"),
        plain("kept", TreeKind::Directory),
        file("kept/new", b"new"),
        plain("pipe", TreeKind::Fifo),
    ]);
    receive(&mut Host::start(), target, &bytes);
    assert_eq!(fs::read(target.join("dir")).unwrap(), b"now a file");
    assert!(target.join("file").is_dir());
    assert!(fs::symlink_metadata(target.join("link")).unwrap().is_file());
    assert_eq!(fs::read(target.join("kept/old")).unwrap(), b"old");
    assert_eq!(fs::read(target.join("kept/new")).unwrap(), b"new");
    assert!(fs::symlink_metadata(target.join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn a_layer_can_remove_entries_and_empty_directories() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path();
    for path in ["gone/deep", "emptied/deep", "stays"] {
        fs::create_dir_all(target.join(path)).unwrap();
    }
    symlink("stays", target.join("alias")).unwrap();
    let bytes = tree(&[
        plain("gone", TreeKind::Removed),
        plain("never-there", TreeKind::Removed),
        plain("emptied", TreeKind::Emptied),
        file("emptied/new", b"new"),
        plain("never-there", TreeKind::Emptied),
        file("alias/through", b"a link of an older layer"),
    ]);
    let heard = receive(&mut Host::start(), target, &bytes);
    assert!(matches!(heard.last, Some(Response::Written { .. })), "{heard:?}");
    assert!(!target.join("gone").exists() && !target.join("never-there").exists());
    let left: Vec<_> =
        fs::read_dir(target.join("emptied")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["new"]);
    assert_eq!(fs::read(target.join("stays/through")).unwrap(), b"a link of an older layer");
}

#[test]
fn a_cancelled_tree_leaves_no_incomplete_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let request = Request::ReceiveTree { path: raw(directory.path()), options: TreeOptions::default() };
    let stream = host.open(&request);
    let mut bytes = Vec::new();
    encode_entry(&entry("file", TreeKind::File { size: 1000 }), &mut bytes).unwrap();
    bytes.extend_from_slice(b"only a little");
    host.send(stream, &bytes);
    host.cancel(stream);
    assert_eq!(host.finish(stream).error(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
