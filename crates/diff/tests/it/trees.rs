//! Random trees: comparing their images gives the same result as comparing the trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_testing::seeded;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::image::{Place, debugfs, diff, is_sound, lines, run};

/// The owner of files that debugfs does not change.
const UNTOUCHED: u32 = 0;

type Tree = BTreeMap<Vec<u8>, Node>;

#[derive(Clone, Debug, Eq, PartialEq)]
struct Node {
    what: What,
    mode: u32,
    owner: u32,
    /// The value of one attribute.
    attribute: Option<String>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum What {
    Directory,
    /// Bytes at offsets, and the size.
    File(BTreeMap<u64, Vec<u8>>, u64),
    /// A hard link to another file. It has no metadata of its own.
    HardLink(Vec<u8>),
    Symlink(Vec<u8>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let names: [&[u8]; 8] = [b"a", b"b", b"c d", b"-x", b"\xc3\xbc", b"\xff\n\"", b"z.z", &[b'n'; 255]];
    select(names.map(<[u8]>::to_vec).to_vec())
}

fn what() -> impl Strategy<Value = What> {
    let file = |pieces: Vec<(u64, Vec<u8>)>, size| What::File(pieces.into_iter().collect(), size);
    let small = (vec(any::<u8>(), 0..200), 0u64..3).prop_map(move |(bytes, extra)| {
        let size = bytes.len() as u64 + extra;
        file(vec![(0, bytes)], size)
    });
    let large = (1usize..60_000, any::<u8>())
        .prop_map(move |(length, byte)| file(vec![(0, vec![byte.max(1); length])], length as u64));
    // Holes between all pieces: more extents than fit in an inode. All end in data, because mke2fs loses a hole at the
    // end of a file that it first tried to store in the inode.
    let comb = (1u64..50, any::<u8>(), 0u64..5000).prop_map(move |(teeth, byte, tail)| {
        let mut pieces: Vec<_> = (0..teeth).map(|tooth| (tooth * 8192, vec![byte.max(1); 4])).collect();
        pieces.push((teeth * 8192 + tail, b"end".to_vec()));
        file(pieces, teeth * 8192 + tail + 3)
    });
    let sparse = (0u64..1 << 30).prop_map(move |size| {
        file(vec![(size / 2, b"middle".to_vec()), (size + 6, b"end".to_vec())], size + 9)
    });
    let link = select(vec![1usize, 3, 59, 60, 61, 300]).prop_map(|length| What::Symlink(vec![b't'; length]));
    let hard = (name(), name()).prop_map(|(one, other)| What::HardLink([one, other].join(&b'/')));
    prop_oneof![2 => Just(What::Directory), 3 => small, 1 => large, 1 => comb, 1 => sparse, 1 => link, 1 => hard]
}

fn node() -> impl Strategy<Value = Node> {
    let mode = select(vec![0o755, 0o700, 0o711, 0o4755, 0o1777]);
    let attribute = prop_oneof![3 => Just(None), 1 => "[a-z]{1,300}".prop_map(Some)];
    (what(), mode, select(vec![UNTOUCHED, UNTOUCHED, 4000, 70_000]), attribute)
        .prop_map(|(what, mode, owner, attribute)| Node { what, mode, owner, attribute })
}

fn entries(most: usize) -> impl Strategy<Value = Vec<(Vec<u8>, Node)>> {
    let path = vec(name(), 1..4).prop_map(|names| names.join(&b'/'));
    vec((path, node()), 0..most)
}

/// Adds entries where possible: below directories only, replacing anything but a directory.
fn add(tree: &mut Tree, entries: &[(Vec<u8>, Node)]) {
    for (path, node) in entries {
        let mut node = node.clone();
        if let What::HardLink(to) = &node.what {
            match tree.get(to) {
                Some(Node { what: What::File(..), .. }) if to != path => {}
                _ => node.what = What::File(BTreeMap::new(), 0),
            }
        }
        let parents: Vec<Vec<u8>> =
            (0..path.len()).filter(|at| path[*at] == b'/').map(|at| path[..at].to_vec()).collect();
        let is_directory = |node: Option<&Node>| node.is_none_or(|node| node.what == What::Directory);
        let is_linked = tree.values().any(|node| node.what == What::HardLink(path.clone()));
        if !parents.iter().all(|parent| is_directory(tree.get(parent))) || is_linked {
            continue;
        }
        if tree.get(path).is_some_and(|there| there.what == What::Directory) {
            remove(tree, path);
        }
        let plain = Node { what: What::Directory, mode: 0o755, owner: UNTOUCHED, attribute: None };
        for parent in parents {
            tree.entry(parent).or_insert_with(|| plain.clone());
        }
        // A hard link may point to something that was just removed.
        if let What::HardLink(to) = &node.what
            && !tree.contains_key(to)
        {
            continue;
        }
        tree.insert(path.clone(), node);
    }
}

fn remove(tree: &mut Tree, path: &[u8]) {
    let below = [path, b"/"].concat();
    let is_gone = |other: &[u8]| other == path || other.starts_with(&below);
    tree.retain(|other, node| !is_gone(other) && !matches!(&node.what, What::HardLink(to) if is_gone(to)));
}

fn on_host(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// Writes a tree to a directory. Returns the debugfs commands for the rest.
fn write(tree: &Tree, root: &Path) -> String {
    fs::create_dir_all(root).unwrap();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let mut commands = String::new();
    for (path, node) in tree {
        let host = on_host(root, path);
        match &node.what {
            What::Directory => fs::create_dir(&host).unwrap(),
            What::Symlink(target) => symlink(OsStr::from_bytes(target), &host).unwrap(),
            What::HardLink(_) => continue,
            What::File(pieces, size) => {
                let file = fs::File::create(&host).unwrap();
                file.set_len(*size).unwrap();
                for (offset, bytes) in pieces {
                    file.write_all_at(bytes, *offset).unwrap();
                }
            }
        }
        if !matches!(node.what, What::Symlink(_)) {
            fs::set_permissions(&host, fs::Permissions::from_mode(node.mode)).unwrap();
        }
        if is_scriptable(path) {
            let path = std::str::from_utf8(path).unwrap();
            if node.owner != UNTOUCHED {
                let (user, group) = (node.owner, node.owner / 2);
                commands += &format!("sif \"/{path}\" uid {user}\nsif \"/{path}\" gid {group}\n");
            }
            if let Some(value) = &node.attribute {
                commands += &format!("ea_set \"/{path}\" user.test {value}\n");
            }
        }
    }
    for (path, node) in tree {
        if let What::HardLink(to) = &node.what {
            fs::hard_link(on_host(root, to), on_host(root, path)).unwrap();
        }
    }
    commands
}

/// Whether debugfs commands can contain the name.
fn is_scriptable(path: &[u8]) -> bool {
    std::str::from_utf8(path).is_ok_and(|path| !path.contains(['\n', '"']))
}

/// The node at a path, and the path at which it is stored.
fn resolve<'t>(tree: &'t Tree, path: &'t [u8]) -> Option<(&'t [u8], &'t Node)> {
    let (path, node) = tree.get_key_value(path)?;
    match &node.what {
        What::HardLink(to) => tree.get_key_value(to).map(|(path, node)| (path.as_slice(), node)),
        _ => Some((path, node)),
    }
}

fn content(node: &Node) -> Option<(BTreeMap<u64, u8>, u64)> {
    let What::File(pieces, size) = &node.what else { return None };
    let mut bytes = BTreeMap::new();
    for (offset, piece) in pieces {
        bytes.extend((*offset..).zip(piece.iter().copied()).filter(|(_, byte)| *byte != 0));
    }
    let end = pieces.iter().map(|(offset, piece)| offset + piece.len() as u64).max().unwrap_or(0);
    Some((bytes, end.max(*size)))
}

fn kind(node: &Node) -> u8 {
    match node.what {
        What::Directory => 0,
        What::Symlink(_) => 1,
        _ => 2,
    }
}

/// A straightforward comparison of two trees.
fn expected(before: &Tree, after: &Tree) -> BTreeSet<String> {
    let mut changes = BTreeSet::new();
    for path in before.keys().chain(after.keys()) {
        let text = path.escape_ascii();
        let (one, other) = match (resolve(before, path), resolve(after, path)) {
            (Some(one), Some(other)) => (one, other),
            (Some(_), None) => {
                changes.insert(format!("- /{text}"));
                continue;
            }
            _ => {
                changes.insert(format!("+ /{text}"));
                continue;
            }
        };
        let settings = |(path, node): (&[u8], &Node)| {
            let is_set = is_scriptable(path);
            let mode = if matches!(node.what, What::Symlink(_)) { 0o777 } else { node.mode };
            // Entries that debugfs cannot name keep their original owner.
            (mode, if is_set { node.owner } else { UNTOUCHED }, node.attribute.clone().filter(|_| is_set))
        };
        let (was, is) = (settings(one), settings(other));
        let same_kind = kind(one.1) == kind(other.1);
        let targets_differ =
            matches!((&one.1.what, &other.1.what), (What::Symlink(a), What::Symlink(b)) if a != b);
        let aspects: String = [
            (same_kind && content(one.1) != content(other.1), " content"),
            (was.0 != is.0, " mode"),
            (was.1 != is.1, " owner"),
            (!same_kind, " type"),
            (was.2 != is.2, " xattr"),
            (targets_differ, " target"),
        ]
        .into_iter()
        .filter_map(|(differs, aspect)| differs.then_some(aspect))
        .collect();
        if !aspects.is_empty() {
            changes.insert(format!("M /{text}{aspects}"));
        }
    }
    changes
}

fn options() -> impl Strategy<Value = Vec<&'static str>> {
    select(vec![
        vec![],
        vec!["-b", "1024"],
        vec!["-b", "4096", "-O", "^has_journal"],
        vec!["-O", "inline_data"],
        vec!["-I", "1024", "-O", "inline_data"],
        vec!["-O", "^extents,^64bit,^metadata_csum"],
        vec!["-b", "1024", "-O", "^extents,^64bit,^flex_bg"],
        vec!["-I", "128"],
        vec!["-O", "ea_inode,meta_bg,^resize_inode"],
        vec!["-b", "2048", "-O", "sparse_super2,^resize_inode"],
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, max_global_rejects: 12, ..seeded(24) })]

    #[test]
    fn comparing_images_equals_comparing_trees(
        first in entries(25),
        more in entries(8),
        removed in vec(any::<prop::sample::Index>(), 0..4),
        crowded in prop::option::weighted(0.2, 0usize..3),
        formats in (options(), options()),
        indexed in any::<bool>(),
    ) {
        let mut before = Tree::new();
        add(&mut before, &first);
        if let Some(missing) = crowded {
            let node = Node { what: What::File(BTreeMap::new(), 0), mode: 0o644, owner: UNTOUCHED, attribute: None };
            let crowd: Vec<_> = (0..1000).map(|n| (format!("crowd/entry-{n}").into_bytes(), node.clone())).collect();
            add(&mut before, &crowd[missing..]);
        }
        let mut after = before.clone();
        for index in removed {
            if let Some(path) = (!after.is_empty()).then(|| index.get(&after.keys().cloned().collect::<Vec<_>>()).clone()) {
                remove(&mut after, &path);
            }
        }
        add(&mut after, &more);

        let place = Place::new();
        let mut images = Vec::new();
        for (name, tree, options) in [("before", &before, &formats.0), ("after", &after, &formats.1)] {
            let root = place.path(&format!("tree-{name}"));
            let commands = write(tree, &root);
            let image = place.path(name);
            crate::image::make(&root, &image, "24M", options);
            debugfs(&image, &commands);
            if indexed {
                run(Command::new("e2fsck").args(["-f", "-y", "-D"]).arg(&image), None);
            }
            // e2fsck 1.47 can overwrite attributes of a symbolic link with inline data and then reports it. Such an
            // image says nothing about our reader.
            prop_assume!(is_sound(&image));
            images.push(image);
        }
        let found: BTreeSet<String> = lines(&diff(&images[0], &images[1])).into_iter().collect();
        prop_assert_eq!(found, expected(&before, &after));
    }
}
