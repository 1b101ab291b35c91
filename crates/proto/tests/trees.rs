//! Tree streams: complete, in chunks, unsafe and invalid.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use agentiso_proto::{MAX_ENTRY, TreeDecoder, TreeEntry, TreeError, TreeItem, TreeKind, encode_entry};
use proptest::prelude::*;

fn entry(path: &[u8], kind: TreeKind) -> TreeEntry {
    TreeEntry { path: path.to_vec(), kind, mode: 0o644, uid: 1, gid: 2, modified_ns: -3, xattrs: Vec::new() }
}

fn encoded(entry: &TreeEntry) -> Vec<u8> {
    let mut out = Vec::new();
    encode_entry(entry, &mut out).unwrap();
    out
}

fn decode(decoder: &mut TreeDecoder, mut input: &[u8]) -> Result<Vec<TreeItem>, TreeError> {
    let mut items = Vec::new();
    while let Some(item) = decoder.next(&mut input)? {
        items.push(item);
    }
    assert!(input.is_empty(), "a decoder that returns no item consumes all input");
    Ok(items)
}

/// Joins the chunks of a file's content.
fn joined(items: Vec<TreeItem>) -> Vec<TreeItem> {
    let mut out: Vec<TreeItem> = Vec::new();
    for item in items {
        match (out.last_mut(), item) {
            (Some(TreeItem::Content(before)), TreeItem::Content(more)) => before.extend(more),
            (_, item) => out.push(item),
        }
    }
    out
}

#[test]
fn unsafe_paths_are_rejected() {
    let long = vec![b'x'; 4097];
    for path in [
        &b"/etc"[..],
        b"..",
        b"../x",
        b"a/../b",
        b"a/..",
        b".",
        b"./a",
        b"a/.",
        b"a//b",
        b"a/",
        b"/",
        b"a\0b",
        &long,
    ] {
        for kind in [TreeKind::Directory, TreeKind::File { size: 1 }, TreeKind::Removed, TreeKind::Emptied] {
            let refused = decode(&mut TreeDecoder::new(), &encoded(&entry(path, kind)));
            assert_eq!(refused, Err(TreeError::Path), "{:?}", String::from_utf8_lossy(path));
        }
        let link = entry(b"link", TreeKind::Hardlink { target: path.to_vec() });
        assert_eq!(decode(&mut TreeDecoder::new(), &encoded(&link)), Err(TreeError::Path));
    }
}

#[test]
fn names_that_only_look_unsafe_are_accepted() {
    for path in [&b""[..], b"...", b"..a", b"a..", b".a/..b", b"\xff\xfe", b"a b"] {
        let entry = entry(path, TreeKind::Directory);
        assert_eq!(decode(&mut TreeDecoder::new(), &encoded(&entry)), Ok(vec![TreeItem::Entry(entry)]));
    }
}

#[test]
fn the_root_can_neither_be_removed_nor_linked_to() {
    for kind in [TreeKind::Removed, TreeKind::Hardlink { target: Vec::new() }] {
        let entry = entry(if kind == TreeKind::Removed { b"" } else { b"a" }, kind);
        assert_eq!(decode(&mut TreeDecoder::new(), &encoded(&entry)), Err(TreeError::Path));
    }
}

#[test]
fn an_oversized_entry_is_rejected_by_both_sides_before_it_is_buffered() {
    let len = MAX_ENTRY as u32 + 1;
    for len in [len, u32::MAX] {
        assert_eq!(decode(&mut TreeDecoder::new(), &len.to_le_bytes()), Err(TreeError::TooLong(len)));
    }
    let mut out = Vec::new();
    let mut large = entry(b"a", TreeKind::Directory);
    large.xattrs = vec![(b"user.x".to_vec(), vec![0; MAX_ENTRY])];
    assert!(matches!(encode_entry(&large, &mut out), Err(TreeError::TooLong(_))));
    assert!(out.is_empty());
}

#[test]
fn lengths_that_exceed_their_entry_are_rejected() {
    // A path that claims to be 2^63 bytes long, in an entry of ten bytes.
    let claim = [&10_u32.to_le_bytes()[..], &[0x80; 9], &[0x01]].concat();
    assert_eq!(decode(&mut TreeDecoder::new(), &claim), Err(TreeError::Malformed));
}

#[test]
fn trailing_bytes_in_an_entry_are_rejected() {
    let mut bytes = encoded(&entry(b"a", TreeKind::Fifo));
    bytes[0] += 1;
    bytes.push(0);
    assert_eq!(decode(&mut TreeDecoder::new(), &bytes), Err(TreeError::Malformed));
}

#[test]
fn data_after_the_end_is_rejected() {
    let mut decoder = TreeDecoder::new();
    assert_eq!(decode(&mut decoder, &[0; 4]), Ok(vec![TreeItem::End]));
    assert!(decoder.is_complete());
    assert_eq!(decode(&mut decoder, &[0]), Err(TreeError::Trailing));
}

#[test]
fn a_huge_file_is_announced_without_being_buffered() {
    let mut decoder = TreeDecoder::new();
    let file = entry(b"huge", TreeKind::File { size: u64::MAX });
    decode(&mut decoder, &encoded(&file)).unwrap();
    assert_eq!(decode(&mut decoder, &[9; 100]), Ok(vec![TreeItem::Content(vec![9; 100])]));
    assert!(!decoder.is_complete());
}

fn any_entry() -> impl Strategy<Value = (TreeEntry, Vec<u8>)> {
    let path = "[a-z]{1,5}(/[a-z.]{0,3}[a-z]){0,3}".prop_map(String::into_bytes);
    let target = prop::collection::vec(any::<u8>(), 0..30);
    let kind = prop_oneof![
        Just(TreeKind::Directory),
        any::<u8>().prop_map(|size| TreeKind::File { size: size.into() }),
        target.prop_map(|target| TreeKind::Symlink { target }),
        "[a-z]{1,9}".prop_map(|target| TreeKind::Hardlink { target: target.into_bytes() }),
        any::<(bool, u32, u32)>().prop_map(|(block, major, minor)| TreeKind::Device { block, major, minor }),
        Just(TreeKind::Fifo),
        Just(TreeKind::Removed),
        Just(TreeKind::Emptied),
    ];
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let xattrs = prop::collection::vec((bytes(), bytes()), 0..3);
    (path, kind, any::<(u32, u32, u32, i64)>(), xattrs, any::<u8>()).prop_map(
        |(path, kind, (mode, uid, gid, modified_ns), xattrs, byte)| {
            let size = if let TreeKind::File { size } = kind { size as usize } else { 0 };
            (TreeEntry { path, kind, mode, uid, gid, modified_ns, xattrs }, vec![byte; size])
        },
    )
}

proptest! {
    #[test]
    fn a_tree_decodes_the_same_in_chunks_of_any_size(
        entries in prop::collection::vec(any_entry(), 0..8),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let (mut bytes, mut items) = (Vec::new(), Vec::new());
        for (entry, content) in entries {
            bytes.extend(encoded(&entry));
            bytes.extend(&content);
            items.push(TreeItem::Entry(entry));
            if !content.is_empty() {
                items.push(TreeItem::Content(content));
            }
        }
        bytes.extend([0; 4]);
        items.push(TreeItem::End);
        let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let mut decoder = TreeDecoder::new();
        let mut decoded = Vec::new();
        for cut in places.windows(2) {
            decoded.extend(decode(&mut decoder, &bytes[cut[0]..cut[1]]).unwrap());
        }
        prop_assert_eq!(joined(decoded), items);
        prop_assert!(decoder.is_complete());
    }

    #[test]
    fn garbage_never_yields_an_unsafe_path(garbage in prop::collection::vec(any::<u8>(), 0..300)) {
        // A valid length, so that what follows is decoded as an entry.
        let bytes = [&(garbage.len() as u32).to_le_bytes()[..], &garbage].concat();
        if let Ok(items) = decode(&mut TreeDecoder::new(), &bytes) {
            for item in items {
                if let TreeItem::Entry(entry) = item {
                    prop_assert!(!entry.path.starts_with(b"/") && !entry.path.split(|b| *b == b'/').any(|p| p == b".."));
                }
            }
        }
    }
}
