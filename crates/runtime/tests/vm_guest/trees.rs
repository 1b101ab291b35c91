//! Transfer of trees in both directions.

use std::collections::{BTreeMap, BTreeSet};

use agentiso_proto::{ErrorKind, TreeEntry, TreeItem, TreeKind, TreeOptions};
use agentiso_vmm::link::{Guest, LinkError};

use crate::machine::{TestMachine, noise, refused, until};

const OWNED: TreeOptions = TreeOptions { owners: true };

/// A tree by path. Hard links are listed separately, since either side may find them in any order.
#[derive(Debug, Default, Eq, PartialEq)]
struct Tree {
    entries: BTreeMap<Vec<u8>, (TreeEntry, Vec<u8>)>,
    linked: BTreeSet<BTreeSet<Vec<u8>>>,
}

impl Tree {
    fn of(items: &[(TreeEntry, Vec<u8>)]) -> Self {
        let mut entries = BTreeMap::new();
        let mut names: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (entry, content) in items {
            let (mut entry, mut content) = (entry.clone(), content.clone());
            entry.xattrs.sort();
            if let TreeKind::Hardlink { target } = &entry.kind {
                names
                    .entry(target.clone())
                    .or_insert_with(|| BTreeSet::from([target.clone()]))
                    .insert(entry.path.clone());
                let (first, same): &(TreeEntry, Vec<u8>) = &entries[target];
                (entry, content) = (TreeEntry { path: entry.path, ..first.clone() }, same.clone());
            }
            entries.insert(entry.path.clone(), (entry, content));
        }
        Self { entries, linked: names.into_values().collect() }
    }
}

fn entry(path: impl AsRef<[u8]>, kind: TreeKind, mode: u32) -> TreeEntry {
    let path = path.as_ref().to_vec();
    let modified_ns = 1_600_000_000_123_456_789 + path.len() as i64;
    TreeEntry { path, kind, mode, uid: 0, gid: 0, modified_ns, xattrs: Vec::new() }
}

fn directory(path: impl AsRef<[u8]>, mode: u32) -> (TreeEntry, Vec<u8>) {
    (entry(path, TreeKind::Directory, mode), Vec::new())
}

fn file(path: impl AsRef<[u8]>, mode: u32, content: Vec<u8>) -> (TreeEntry, Vec<u8>) {
    (entry(path, TreeKind::File { size: content.len() as u64 }, mode), content)
}

fn symlink(path: &str, target: &str) -> (TreeEntry, Vec<u8>) {
    (entry(path, TreeKind::Symlink { target: target.into() }, 0o777), Vec::new())
}

fn hardlink(path: &str, target: &str) -> (TreeEntry, Vec<u8>) {
    (entry(path, TreeKind::Hardlink { target: target.into() }, 0), Vec::new())
}

async fn push(
    guest: &Guest,
    path: &str,
    options: TreeOptions,
    items: &[(TreeEntry, Vec<u8>)],
) -> Result<u64, LinkError> {
    let mut writer = guest.receive_tree(path.as_bytes(), options).await?;
    for (entry, content) in items {
        writer.entry(entry).await?;
        if !content.is_empty() {
            writer.content(content).await?;
        }
    }
    writer.finish().await
}

async fn pull(guest: &Guest, path: &str) -> Result<Vec<(TreeEntry, Vec<u8>)>, LinkError> {
    let mut reader = guest.send_tree(path.as_bytes()).await?;
    let mut items: Vec<(TreeEntry, Vec<u8>)> = Vec::new();
    while let Some(item) = reader.next().await? {
        match item {
            TreeItem::Entry(entry) => items.push((entry, Vec::new())),
            TreeItem::Content(bytes) => items.last_mut().unwrap().1.extend_from_slice(&bytes),
            TreeItem::End => {}
        }
    }
    Ok(items)
}

/// One entry of every kind.
fn everything() -> Vec<(TreeEntry, Vec<u8>)> {
    let mut items = vec![
        directory("", 0o750),
        directory("empty", 0o700),
        directory("locked", 0o000),
        file("locked/file", 0o000, b"secret".to_vec()),
        directory("sticky", 0o1777),
        file("large", 0o644, noise(3_000_000)),
        file("none", 0o600, Vec::new()),
        file("setuid", 0o6755, b"#!/bin/sh\n".to_vec()),
        hardlink("empty-sibling", "large"),
        symlink("absolute", "/etc/passwd"),
        symlink("relative", "../../outside"),
        symlink("dangling", "no such thing\n"),
        (entry("fifo", TreeKind::Fifo, 0o622), Vec::new()),
        (entry("null", TreeKind::Device { block: false, major: 1, minor: 3 }, 0o666), Vec::new()),
        (entry("disk", TreeKind::Device { block: true, major: 7, minor: 0 }, 0o660), Vec::new()),
        file(b"name \xff\n\t", 0o644, b"odd".to_vec()),
        directory("z", 0o755),
        hardlink("z/again", "setuid"),
    ];
    let mut path = b"deep".to_vec();
    for _ in 0..60 {
        items.push(directory(&path, 0o755));
        path.extend_from_slice(b"/and-deeper");
    }
    items.push(file(&path, 0o644, b"bottom".to_vec()));
    for (number, (entry, _)) in items.iter_mut().enumerate() {
        if !matches!(entry.kind, TreeKind::Hardlink { .. }) {
            (entry.uid, entry.gid) = (1000 + number as u32, 2000 + number as u32);
        }
        if matches!(entry.kind, TreeKind::File { .. } | TreeKind::Directory) && number % 2 == 0 {
            entry.xattrs =
                vec![(b"user.one".to_vec(), b"1\0\xff".to_vec()), (b"user.two".to_vec(), Vec::new())];
        }
    }
    items
}

#[tokio::test]
async fn a_tree_survives_a_round_trip() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let items = everything();
    let bytes: usize = items.iter().map(|(_, content)| content.len()).sum();
    assert_eq!(push(guest, "/root/made/tree", OWNED, &items).await.unwrap(), bytes as u64);
    let expected = Tree::of(&items);
    let pulled = pull(guest, "/root/made/tree").await.unwrap();
    assert_same(&Tree::of(&pulled), &expected);
    let seen = machine.sh("cd /root/made/tree; stat -c '%a %u %F' fifo sticky null; stat -c %h large; cat z/again; readlink absolute").await;
    assert_eq!(
        seen,
        "622 1012 fifo\n1777 1004 directory\n666 1013 character special file\n2\n#!/bin/sh\n/etc/passwd"
    );

    // Again over the existing tree, and into another directory from what was received.
    push(guest, "/root/made/tree", OWNED, &items).await.unwrap();
    assert_same(&Tree::of(&pull(guest, "/root/made/tree").await.unwrap()), &expected);
    push(guest, "/root/copy", OWNED, &pulled).await.unwrap();
    assert_same(&Tree::of(&pull(guest, "/root/copy").await.unwrap()), &expected);
    assert_eq!(machine.sh("diff -r --no-dereference -x fifo -x null -x disk /root/made/tree /root/copy && find /root -name '.agentiso*'").await, "");

    // Without owners everything belongs to root. A single file can be sent as a tree.
    push(guest, "/root/rooted", TreeOptions::default(), &items).await.unwrap();
    assert_eq!(machine.sh("find /root/rooted ! -uid 0 -o ! -gid 0").await, "");
    let single = pull(guest, "/root/copy/setuid").await.unwrap();
    assert_eq!((single.len(), single[0].0.path.as_slice(), single[0].0.mode), (1, &b""[..], 0o6755));
    assert_eq!(refused(pull(guest, "/root/missing").await), ErrorKind::NotFound);
}

fn assert_same(found: &Tree, expected: &Tree) {
    let paths = |tree: &Tree| {
        tree.entries.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(found), paths(expected));
    for (path, (entry, content)) in &expected.entries {
        assert_eq!(&found.entries[path].0, entry);
        assert!(&found.entries[path].1 == content, "content of {}", String::from_utf8_lossy(path));
    }
    assert_eq!(found.linked, expected.linked);
}

#[tokio::test]
async fn a_tree_does_not_leave_its_directory_through_links() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    machine.sh("mkdir /root/outside /root/in && echo untouched > /root/outside/file").await;
    machine.sh("cd /root/in && ln -s /root/outside abs && ln -s ../outside rel && ln -s /root/outside/file f && ln -s / top").await;
    let untouched = "untouched\nfile";
    let look = "cat /root/outside/*; ls -A /root/outside";

    // Through an existing link: it may fail or not, but stays inside.
    for path in ["abs/evil", "rel/evil", "top/root/outside/evil"] {
        let _inside_or_refused = push(guest, "/root/in", OWNED, &[file(path, 0o644, b"evil".to_vec())]).await;
        assert_eq!(machine.sh(look).await, untouched, "{path}");
    }
    // Over a link: it is replaced, not followed.
    let over = [
        directory("abs", 0o755),
        file("abs/evil", 0o644, b"evil".to_vec()),
        file("f", 0o644, b"evil".to_vec()),
    ];
    push(guest, "/root/in", OWNED, &over).await.unwrap();
    assert_eq!(machine.sh("cd /root/in; test ! -L abs && test ! -L f && cat abs/evil f").await, "evilevil");
    assert_eq!(machine.sh(look).await, untouched);
    // Through a link in the tree itself, and emptying or linking through one.
    let own = [symlink("own", "../outside"), file("own/evil", 0o644, b"evil".to_vec())];
    let _inside_or_refused = push(guest, "/root/in", OWNED, &own).await;
    let emptied = [symlink("own", "/root/outside"), (entry("own", TreeKind::Emptied, 0), Vec::new())];
    let _inside_or_refused = push(guest, "/root/in", OWNED, &emptied).await;
    let linked = [symlink("own", "/root/outside"), hardlink("stolen", "own/file")];
    assert_eq!(refused(push(guest, "/root/in", OWNED, &linked).await), ErrorKind::NotFound);
    assert_eq!(machine.sh(look).await, untouched);
    assert_eq!(machine.sh("find /root /tmp -name evil -not -path '/root/in/*'").await, "");
}

#[tokio::test]
async fn an_abandoned_or_invalid_tree_leaves_no_incomplete_file() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut writer = guest.receive_tree(b"/root/t".as_slice(), OWNED).await.unwrap();
    writer.entry(&file("done", 0o644, b"x".to_vec()).0).await.unwrap();
    writer.content(b"x").await.unwrap();
    writer.entry(&entry("half", TreeKind::File { size: 10 << 20 }, 0o644)).await.unwrap();
    writer.content(&vec![1; 2 << 20]).await.unwrap();
    until(guest, "[ -e /root/t/half ]").await;
    drop(writer);
    until(guest, "[ \"$(ls -A /root/t)\" = done ]").await;

    // Hard links to nothing and missing content are rejected, and leave nothing incomplete.
    assert_eq!(
        refused(push(guest, "/root/t", OWNED, &[hardlink("a", "missing")]).await),
        ErrorKind::NotFound
    );
    assert_eq!(
        refused(push(guest, "/root/t/done", OWNED, &[file("a", 0o644, Vec::new())]).await),
        ErrorKind::NotFound
    );
    assert_eq!(refused(push(guest, "/root/t", OWNED, &[symlink("a", "")]).await), ErrorKind::Invalid);
    for path in ["../evil", "/evil", "a//b", "a/./b", "a/..", "a\0b"] {
        let senseless = push(guest, "/root/t", OWNED, &[file(path, 0o644, Vec::new())]).await;
        assert_eq!(refused(senseless), ErrorKind::Invalid, "{path:?}");
    }
    let removed = [(entry("done", TreeKind::Removed, 0), Vec::new())];
    push(guest, "/root/t", OWNED, &removed).await.unwrap();
    assert_eq!(machine.sh("ls -A /root/t").await, "");
}
