//! Overlays that root mounts where other programs see them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use agentiso_mounts::{By, IngestOptions, MountError, MountState, Running};

use crate::server::{mount, mounts, unmount};
use crate::support::*;

#[test]
fn root_mounts_an_overlay_that_renames_directories() {
    let place = Place::new();
    let tree = place.tree(|root| {
        fill(root, 4, 3);
        write(root.join("dir-0/a/b/file"), "deep");
        write(root.join("dir-0/a/c/file"), "deep");
    });
    let info = mount(&place, tree, "point", By::Auto);
    assert_eq!((info.by, info.server), (By::Overlay, None));
    let at = |name: &str| info.point.join(name);
    fs::rename(at("dir-0"), at("moved")).unwrap();
    fs::rename(at("moved/a/b"), at("dir-1/b")).unwrap();
    fs::rename(at("moved/a"), at("moved/z")).unwrap();
    fs::write(at("moved/z/c/file"), "changed").unwrap();
    fs::write(at("moved/z/c/new"), "new").unwrap();
    fs::remove_file(at("moved/file-0")).unwrap();
    fs::create_dir(at("dir-0")).unwrap();
    fs::write(at("dir-0/new"), "new").unwrap();
    fs::rename(at("dir-2"), at("dir-3/dir-2")).unwrap();
    chown(at("dir-3/file-0"), Some(1234), Some(1234)).unwrap();
    let shown = place.import(&info.point);
    let live = place.dirs.visit(&info.workdir).unwrap();
    let options = IngestOptions { running: Running::Unfrozen, ..IngestOptions::default() };
    let ingested = live.ingest(&options).unwrap();
    assert_eq!(place.differences(shown, ingested.tree, true), Vec::<String>::new());
    assert!(ingested.changes.list.iter().any(|change| change.old_path.is_some()));
    assert_eq!(unmount(&place, &info.point), shown);
    // The next mount of that tree shows the same.
    let info = mount(&place, shown, "point", By::Overlay);
    assert_eq!(fs::metadata(info.point.join("dir-3/file-0")).unwrap().uid(), 1234);
    assert_eq!(unmount(&place, &info.point), shown);
}

#[test]
fn layers_of_a_mount_without_a_process_are_in_use() {
    let place = Place::new();
    let options = agentiso_mounts::LayoutOptions { budget_bytes: 0, ..Default::default() };
    let place = Place { dirs: Place::open(&place.root, options).dirs, ..place };
    let tree = place.tree(|root| fill(root, 2, 2));
    let info = mount(&place, tree, "point", By::Overlay);
    assert_eq!(place.dirs.layouts().evict().unwrap().layouts, 0);
    assert!(matches!(place.dirs.claim(&info.workdir), Err(MountError::Busy { .. })));
    assert!(place.dirs.abandoned().unwrap().is_empty());
    // Somebody else unmounts it: the next command notices, and nothing is lost.
    fs::write(info.point.join("new"), "x").unwrap();
    rustix::mount::unmount(&info.point, rustix::mount::UnmountFlags::empty()).unwrap();
    let listed = mounts(&place).list().unwrap();
    assert_eq!(listed.iter().map(|info| info.state).collect::<Vec<_>>(), [MountState::Dead]);
    let workdir = place.dirs.abandoned().unwrap().pop().unwrap();
    assert_eq!(workdir.ingest(&IngestOptions::default()).unwrap().changes.total, 1);
    workdir.remove().unwrap();
    assert_eq!(place.dirs.layouts().evict().unwrap().layouts, 1);
}

#[test]
fn forks_are_mounted_side_by_side() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    let forks: Vec<_> =
        (0..4).map(|number| mount(&place, tree, &format!("fork-{number}"), By::Overlay)).collect();
    for (number, fork) in forks.iter().enumerate() {
        fs::write(fork.point.join("dir-0/file-0"), number.to_string()).unwrap();
    }
    let trees: std::collections::BTreeSet<_> =
        forks.iter().map(|fork| unmount(&place, &fork.point).to_string()).collect();
    assert_eq!(trees.len(), 4);
    assert_eq!(place.dirs.layouts().list().unwrap().len(), 1);
}
