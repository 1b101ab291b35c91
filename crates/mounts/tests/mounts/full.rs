//! A full file system.

use std::fs;

use agentiso_core::{Code, Explain};
use agentiso_mounts::{IngestOptions, Kind, LayoutOptions, WorkDirOptions};

use crate::support::*;

/// Runs a test of this file on a small file system of its own.
fn on_small(size: &str, test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=$2 tmpfs \"$1\"; exec \"$0\" --exact $3 --ignored --quiet";
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-e", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(dir.path())
        .args([size, test])
        .env("MOUNTS_TEST_PLACE", dir.path())
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn noise(len: u32) -> Vec<u8> {
    (0..len / 4).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

#[test]
fn an_ingest_without_space_changes_nothing_and_succeeds_later() {
    on_small("12m", "full::ingest");
}

#[test]
#[ignore = "run by another test"]
fn ingest() {
    let place = Place::inherited();
    fs::create_dir(place.path("at")).unwrap();
    let tree = place.tree(|root| fill(root, 2, 2));
    let workdir = place.create(tree, Kind::Overlay);
    fs::write(workdir.writable().join("large"), noise(5 << 20)).unwrap();
    fs::write(place.path("ballast"), noise(4 << 20)).unwrap();
    let error = workdir.ingest(&IngestOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::DiskFull, "{error}");
    assert!(error.remedy().is_some());
    assert_eq!(workdir.current().unwrap(), tree);
    fs::remove_file(place.path("ballast")).unwrap();
    assert_eq!(place.ingest(&workdir).changes.total, 1);
}

#[test]
fn a_layout_without_space_leaves_nothing() {
    on_small("6m", "full::layout");
}

#[test]
#[ignore = "run by another test"]
fn layout() {
    let place = Place::inherited();
    fs::create_dir(place.path("at")).unwrap();
    let tree = place.tree(|root| write(root.join("large"), noise(2 << 20)));
    fs::write(place.path("ballast"), noise(2 << 20)).unwrap();
    for kind in [Kind::Overlay, Kind::Plain] {
        let error =
            place.dirs.create(tree, &WorkDirOptions { kind, ..WorkDirOptions::default() }).unwrap_err();
        assert_eq!(error.code(), Code::DiskFull, "{kind:?} {error}");
    }
    assert_eq!(place.dirs.layouts().list().unwrap(), []);
    fs::remove_file(place.path("ballast")).unwrap();
    // A working directory whose layers could not be made is kept, and empty; nothing else is left.
    Place::open(&place.root, LayoutOptions::default());
    for workdir in place.dirs.abandoned().unwrap() {
        assert!(!workdir.is_touched().unwrap());
        workdir.remove().unwrap();
    }
    let workdir = place.create(tree, Kind::Overlay);
    assert_eq!(place.run(&workdir, "ls"), "large\n");
    let below = |name: &str| {
        let names = fs::read_dir(place.path(name)).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| {
                name.as_encoded_bytes().starts_with(b".new") || name.as_encoded_bytes().starts_with(b".old")
            })
            .count()
    };
    assert_eq!((below("layouts"), below("work")), (0, 0));
}
