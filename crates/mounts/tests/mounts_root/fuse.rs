//! Mounts over FUSE.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use agentiso_mounts::{By, IngestOptions, MountError, MountRequest, MountState, Running};
use proptest::test_runner::{Config, TestRunner};

use crate::ops::{self, Op};
use crate::server::{mount, mounts, unmount, with_fuse};
use crate::support::*;

#[test]
fn a_tree_is_mounted_changed_and_read_back() {
    with_fuse("fuse::used");
}

#[test]
#[ignore = "run by another test"]
fn used() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 4, 4));
    let info = mount(&place, tree, "point", By::Fuse);
    assert_eq!((info.by, info.state, info.label.as_str()), (By::Fuse, MountState::Live, "point"));
    let at = |name: &str| info.point.join(name);
    assert_eq!(place.differences(tree, place.import(&info.point), true), Vec::<String>::new());
    fs::write(at("dir-0/file-0"), "changed").unwrap();
    fs::rename(at("dir-1"), at("renamed")).unwrap();
    fs::remove_dir_all(at("dir-2")).unwrap();
    fs::hard_link(at("dir-0/file-0"), at("linked")).unwrap();
    assert_eq!(fs::metadata(at("linked")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(at("linked")).unwrap().ino(), fs::metadata(at("dir-0/file-0")).unwrap().ino());
    assert_eq!(fs::read_to_string(at("renamed/file-1")).unwrap().lines().count(), 2);
    // A checkpoint of the live mount.
    let options = IngestOptions { running: Running::Unfrozen, ..IngestOptions::default() };
    let live = mounts(&place).ingest(&info.point, &options).unwrap();
    assert!(live.is_consistent);
    assert_eq!(place.differences(place.import(&info.point), live.tree, true), Vec::<String>::new());
    let listed = mounts(&place).list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].point.clone(), listed[0].server), (info.point.clone(), info.server));
    assert_eq!(unmount(&place, &info.point), live.tree);
    assert_eq!(fs::read_dir(&info.point).unwrap().count(), 0);
    assert_eq!((mounts(&place).list().unwrap(), place.dirs.list().unwrap()), (vec![], vec![]));
}

#[test]
fn files_behave_while_they_are_open_removed_and_mapped() {
    with_fuse("fuse::open_files");
}

#[test]
#[ignore = "run by another test"]
fn open_files() {
    let place = Place::new();
    let info = mount(&place, place.tree(|root| fill(root, 2, 3)), "point", By::Fuse);
    let at = |name: &str| info.point.join(name);
    let mut file = fs::OpenOptions::new().read(true).write(true).open(at("dir-0/file-0")).unwrap();
    fs::remove_file(at("dir-0/file-0")).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"after removal").unwrap();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("after removal"));
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.set_len(3).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 3);
    // Replaced while it is open.
    let old = fs::File::open(at("dir-0/file-1")).unwrap();
    fs::rename(at("dir-0/file-2"), at("dir-0/file-1")).unwrap();
    assert_eq!(old.metadata().unwrap().len(), "file 1 of directory 0\n".len() as u64 * 2);
    assert!(fs::read_to_string(at("dir-0/file-1")).unwrap().starts_with("file 2"));
    // A moved directory of the lower layer, with an open file and a known directory in it.
    let open = fs::OpenOptions::new().append(true).open(at("dir-1/file-0")).unwrap();
    fs::create_dir(at("dir-1/sub")).unwrap();
    fs::rename(at("dir-1"), at("moved")).unwrap();
    (&open).write_all(b"appended").unwrap();
    fs::write(at("moved/sub/new"), "new").unwrap();
    assert!(fs::read_to_string(at("moved/file-0")).unwrap().ends_with("appended"));
    fs::rename(at("moved/sub"), at("sub")).unwrap();
    assert_eq!(fs::read_to_string(at("sub/new")).unwrap(), "new");
    // Sparse files and large writes.
    let large = fs::File::create(at("large")).unwrap();
    large.write_all_at(&vec![7; 3 << 20], 1 << 30).unwrap();
    assert_eq!(large.metadata().unwrap().len(), (1 << 30) + (3 << 20));
    assert!(large.metadata().unwrap().blocks() < 10 << 11);
    drop((large, open, old, file));
    let shown = place.import(&info.point);
    let tree = unmount(&place, &info.point);
    assert_eq!(place.differences(shown, tree, true), Vec::<String>::new());
}

#[test]
fn a_mount_behaves_like_a_plain_directory() {
    with_fuse("fuse::compared");
}

#[test]
#[ignore = "run by another test"]
fn compared() {
    let place = Place::new();
    let source = place.path("source");
    ops::start(&source);
    let tree = place.import(&source);
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    runner
        .run(&proptest::collection::vec(ops::op(), 1..60), |ops| {
            let plain = place.path("plain");
            let _ = fs::remove_dir_all(&plain);
            ops::start(&plain);
            let info = mount(&place, tree, "point", By::Fuse);
            let results = |root: &Path| -> Vec<_> { ops.iter().map(|op: &Op| op.apply(root)).collect() };
            let (expected, found) = (results(&plain), results(&info.point));
            let tree = unmount(&place, &info.point);
            proptest::prop_assert_eq!(found, expected);
            let differences = place.differences(place.import(&plain), tree, false);
            proptest::prop_assert_eq!(differences, Vec::<String>::new());
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_killed_server_leaves_no_dead_mount_and_loses_nothing() {
    with_fuse("fuse::killed");
}

#[test]
#[ignore = "run by another test"]
fn killed() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let info = mount(&place, tree, "point", By::Fuse);
    let other = mount(&place, tree, "other", By::Fuse);
    let mut file = fs::File::create(info.point.join("written")).unwrap();
    file.write_all(b"before the kill").unwrap();
    let pid = rustix::process::Pid::from_raw(info.server.unwrap() as i32).unwrap();
    let watch = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    rustix::event::poll(&mut [rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN)], None)
        .unwrap();
    let listed = mounts(&place).list().unwrap();
    let states: Vec<_> = listed.iter().map(|info| (info.label.as_str(), info.state)).collect();
    assert_eq!(states, [("other", MountState::Live), ("point", MountState::Dead)]);
    assert_eq!(mounts(&place).list().unwrap().len(), 1);
    assert_eq!(fs::read_dir(&info.point).unwrap().count(), 0, "the mount point is a plain directory again");
    let mut abandoned = place.dirs.abandoned().unwrap();
    assert_eq!(abandoned.len(), 1);
    let workdir = abandoned.pop().unwrap();
    assert_eq!(workdir.label(), "point");
    let ingested = workdir.ingest(&IngestOptions::default()).unwrap();
    assert_eq!(place.differences(tree, ingested.tree, false), ["Created /written []"]);
    workdir.remove().unwrap();
    assert_eq!(unmount(&place, &other.point), tree);
}

#[test]
fn a_mount_in_use_is_not_unmounted_unless_lazily() {
    with_fuse("fuse::busy");
}

#[test]
#[ignore = "run by another test"]
fn busy() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let info = mount(&place, tree, "point", By::Fuse);
    assert!(matches!(place.dirs.claim(&info.workdir), Err(MountError::Busy { .. })));
    let mut child =
        Command::new("cat").current_dir(&info.point).stdin(std::process::Stdio::piped()).spawn().unwrap();
    assert!(matches!(mounts(&place).unmount(&info.point, false), Err(MountError::Busy { .. })));
    assert!(info.point.join("dir-0").exists());
    let request = MountRequest {
        tree,
        point: info.point.clone(),
        label: String::new(),
        read_only: false,
        by: By::Fuse,
    };
    assert!(matches!(mounts(&place).mount(&request), Err(MountError::Busy { .. })));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(unmount(&place, &info.point), tree);
    assert!(matches!(mounts(&place).unmount(&info.point, false), Err(MountError::NotFound { .. })));
}

#[test]
fn a_read_only_mount_refuses_changes() {
    with_fuse("fuse::read_only");
}

#[test]
#[ignore = "run by another test"]
fn read_only() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let point = place.path("point");
    fs::create_dir(&point).unwrap();
    let request =
        MountRequest { tree, point: point.clone(), label: String::new(), read_only: true, by: By::Fuse };
    mounts(&place).mount(&request).unwrap();
    assert_eq!(place.import(&point), tree);
    let error = fs::write(point.join("new"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    assert_eq!(unmount(&place, &point), tree);
}

#[test]
fn a_mount_that_fails_leaves_nothing() {
    with_fuse("fuse::failing");
}

#[test]
#[ignore = "run by another test"]
fn failing() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let point = place.path("point");
    fs::create_dir(&point).unwrap();
    let broken = agentiso_mounts::Launcher { program: "/bin/false".into(), arguments: Vec::new() };
    let failing = agentiso_mounts::Mounts::open(&place.path("mounts"), &place.dirs, broken).unwrap();
    let request =
        MountRequest { tree, point: point.clone(), label: String::new(), read_only: false, by: By::Fuse };
    assert!(matches!(failing.mount(&request), Err(MountError::Mount { .. })));
    fs::write(point.join("file"), "not empty").unwrap();
    assert!(matches!(mounts(&place).mount(&request), Err(MountError::Invalid { .. })));
    assert_eq!((mounts(&place).list().unwrap(), place.dirs.list().unwrap()), (vec![], vec![]));
}
