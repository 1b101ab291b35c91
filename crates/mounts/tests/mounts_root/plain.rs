//! Mounts where the kernel allows none.

use std::fs;

use agentiso_mounts::{By, MountError, MountRequest, MountState, Mounts, Support, WorkDirs};

use crate::server::launcher;
use crate::support::*;

#[test]
fn a_plain_directory_takes_the_place_of_a_mount() {
    everywhere("plain::linked");
}

#[test]
#[ignore = "run by another test"]
fn linked() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    let support = Support::none("nothing works");
    let dirs = WorkDirs::open(place.dirs.directory(), &place.store, place.dirs.layouts(), &support).unwrap();
    let mounts = Mounts::open(&place.path("mounts"), &dirs, launcher()).unwrap();
    let point = place.path("point");
    fs::create_dir(&point).unwrap();
    let request = MountRequest {
        tree,
        point: point.clone(),
        label: "plain".to_owned(),
        read_only: false,
        by: By::Auto,
    };
    for by in [By::Fuse, By::Overlay] {
        let error = mounts.mount(&MountRequest { by, ..request.clone() }).unwrap_err();
        assert!(matches!(error, MountError::Unsupported { reason, .. } if reason == "nothing works"));
    }
    assert!(mounts.mount(&MountRequest { read_only: true, ..request.clone() }).is_err());
    let info = mounts.mount(&request).unwrap();
    assert_eq!(info.by, By::Plain);
    fs::write(point.join("dir-0/new"), "new").unwrap();
    assert_eq!(mounts.list().unwrap().first().unwrap().state, MountState::Live);
    assert!(dirs.abandoned().unwrap().is_empty());
    let workdir = mounts.unmount(&point, false).unwrap();
    assert_eq!(place.ingest(&workdir).changes.total, 1);
    workdir.remove().unwrap();
    assert!(fs::symlink_metadata(&point).unwrap().is_dir());
    assert_eq!(mounts.list().unwrap(), []);
    // A link that somebody replaced is not touched.
    let info = mounts.mount(&request).unwrap();
    fs::remove_file(&point).unwrap();
    fs::write(&point, "mine").unwrap();
    assert_eq!(mounts.list().unwrap().first().unwrap().state, MountState::Dead);
    assert_eq!(fs::read_to_string(&point).unwrap(), "mine");
    assert_eq!(dirs.abandoned().unwrap().first().unwrap().name(), info.workdir);
}
