//! Lower layers: made once, shared, and removed when nobody uses them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use agentiso_mounts::{Kind, LayoutOptions, MountError};

use crate::support::*;

#[test]
fn a_layout_is_made_once() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 3, 3));
    let first = place.dirs.layouts().base(tree).unwrap();
    let second = Place::open(&place.root, LayoutOptions::default()).dirs.layouts().base(tree).unwrap();
    assert_eq!(first.lowers(), second.lowers());
    assert_eq!(place.import(first.lowers().first().unwrap()), tree);
    assert_eq!(place.dirs.layouts().list().unwrap().len(), 1);
}

/// Two trees that differ in every way.
fn unlike(place: &Place) -> (agentiso_store::TreeId, agentiso_store::TreeId) {
    let both = |root: &Path| {
        fill(root, 3, 3);
        write(root.join("same"), "same");
    };
    let before = place.tree(|root| {
        both(root);
        write(root.join("file-to-directory"), "file");
        write(root.join("directory-to-file/inside"), "inside");
        symlink("same", root.join("link")).unwrap();
        write(root.join("mode"), "mode");
    });
    let after = place.tree(|root| {
        both(root);
        write(root.join("file-to-directory/inside"), "inside");
        write(root.join("directory-to-file"), "file");
        symlink("dir-0", root.join("link")).unwrap();
        write(root.join("mode"), "mode");
        fs::set_permissions(root.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_dir_all(root.join("dir-1")).unwrap();
        fs::remove_file(root.join("dir-2/file-0")).unwrap();
        write(root.join("dir-2/file-1"), "changed");
        write(root.join("new/deep/file"), vec![7; 600_000]);
        fs::hard_link(root.join("new/deep/file"), root.join("new/linked")).unwrap();
        fs::set_permissions(root.join("dir-0"), fs::Permissions::from_mode(0o555)).unwrap();
    });
    (before, after)
}

#[test]
fn a_similar_tree_needs_only_a_layer() {
    everywhere("layouts::similar");
}

#[test]
#[ignore = "run by another test"]
fn similar() {
    let place = Place::new();
    let (before, after) = unlike(&place);
    for (tree, layers) in [(before, 1), (after, 2)] {
        let base = place.dirs.layouts().base(tree).unwrap();
        assert_eq!(base.lowers().len(), layers);
        let workdir = place.create(tree, Kind::Overlay);
        assert_eq!(place.differences(tree, place.shown(&workdir), true), Vec::<String>::new());
        assert!(!workdir.is_touched().unwrap(), "looking changes nothing");
        workdir.remove().unwrap();
    }
    // And back again: the layer's own base is found.
    assert_eq!(place.dirs.layouts().base(before).unwrap().lowers().len(), 1);
}

#[test]
fn a_tree_that_differs_much_is_laid_out_and_shares_what_is_the_same() {
    let place = Place::new();
    let options = LayoutOptions { max_delta_entries: 4, ..LayoutOptions::default() };
    let place = Place { dirs: Place::open(&place.root, options).dirs, ..place };
    let (before, after) = unlike(&place);
    let old = place.dirs.layouts().base(before).unwrap();
    let new = place.dirs.layouts().base(after).unwrap();
    assert_eq!((old.lowers().len(), new.lowers().len()), (1, 1));
    assert_eq!(place.import(new.lowers().first().unwrap()), after);
    assert_eq!(place.import(old.lowers().first().unwrap()), before);
    let inode = |root: &Path| fs::metadata(root.join("same")).unwrap();
    let (old, new) = (inode(old.lowers().first().unwrap()), inode(new.lowers().first().unwrap()));
    // Where the file system cannot clone, the file is linked if its time is the same, too.
    assert!(old.ino() != new.ino() || old.nlink() == 2);
}

#[test]
fn the_least_recently_used_layouts_are_removed_but_none_in_use() {
    let place = Place::new();
    let options = LayoutOptions { max_delta_entries: 0, budget_bytes: 0, ..LayoutOptions::default() };
    let place = Place { dirs: Place::open(&place.root, options).dirs, ..place };
    let layouts = place.dirs.layouts();
    let trees: Vec<_> = (0..3).map(|number| place.tree(|root| fill(root, 1, number + 1))).collect();
    let held = layouts.base(*trees.first().unwrap()).unwrap();
    drop(layouts.base(*trees.get(1).unwrap()).unwrap());
    let workdir = place.create(*trees.get(2).unwrap(), Kind::Overlay);
    let evicted = layouts.evict().unwrap();
    let left: Vec<_> = layouts.list().unwrap().iter().map(|info| info.tree).collect();
    assert!(left.contains(trees.first().unwrap()) && left.contains(trees.get(2).unwrap()));
    assert_eq!((left.len(), evicted.layouts), (2, 1));
    assert!(held.lowers().first().unwrap().exists());
    // The working directory finds its layers again.
    let name = workdir.name().to_owned();
    drop(workdir);
    layouts.evict().unwrap();
    assert_eq!(layouts.list().unwrap().len(), 1);
    let workdir = place.dirs.claim(&name).unwrap();
    assert_eq!(place.run(&workdir, "ls dir-0"), "file-0\nfile-1\nfile-2\n");
}

#[test]
fn a_damaged_layout_is_found_and_made_again() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    let base = place.dirs.layouts().base(tree).unwrap();
    let lower = base.lowers().first().unwrap().clone();
    drop(base);
    place.dirs.layouts().verify(tree).unwrap();
    fs::write(lower.join("dir-1/file-1"), "damaged").unwrap();
    let error = place.dirs.layouts().verify(tree).unwrap_err();
    assert!(
        matches!(&error, MountError::Damaged { reason, .. } if reason.contains("dir-1/file-1")),
        "{error}"
    );
    drop(place.dirs.layouts().base(tree).unwrap());
    place.dirs.layouts().verify(tree).unwrap();
    // What is added to the root is noticed without looking at everything.
    fs::write(lower.join("stranger"), "x").unwrap();
    drop(place.dirs.layouts().base(tree).unwrap());
    assert!(!lower.join("stranger").exists());
}

#[test]
fn what_a_killed_maker_left_is_removed_and_what_a_live_one_makes_is_not() {
    let place = Place::new();
    let directory = place.dirs.layouts().directory().to_owned();
    for name in [".new-killed", ".old-killed", ".new-alive"] {
        write(directory.join(name).join("tree/file"), "x");
        write(directory.join(name).join("lease"), "");
    }
    let lease = fs::File::open(directory.join(".new-alive/lease")).unwrap();
    rustix::fs::flock(&lease, rustix::fs::FlockOperation::LockExclusive).unwrap();
    Place::open(&place.root, LayoutOptions::default());
    let left: Vec<_> = [".new-killed", ".old-killed", ".new-alive"]
        .into_iter()
        .filter(|name| directory.join(name).exists())
        .collect();
    assert_eq!(left, [".new-alive"]);
}
