//! Processes that are killed at any moment.

use std::fs;
use std::path::Path;
use std::process::Command;

use agentiso_mounts::{IngestOptions, Kind, WorkDirOptions};

use crate::support::*;

#[test]
fn a_working_directory_of_a_killed_process_is_found_with_every_change() {
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 2, 2));
    fs::write(place.path("tree"), tree.to_string()).unwrap();
    // Killed at points that are spread over everything that the child does, several hundred system calls.
    let mut found = 0;
    for delay in 0..60_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::use_workdir", "--ignored", "--quiet"])
            .env("MOUNTS_TEST_PLACE", &place.root)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Where in its work the child is then does not matter: every point must be safe.
        let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: (delay * 1_500_000) as i64 };
        let _ = rustix::thread::nanosleep(&pause);
        child.kill().unwrap();
        child.wait().unwrap();
        found += recover(&place, tree);
    }
    assert!(found > 0, "the child was never killed while it had a working directory");
}

/// Opens everything as the next process does, and checks that what was acknowledged is there.
fn recover(place: &Place, tree: agentiso_store::TreeId) -> usize {
    let acknowledged = fs::read_to_string(place.path("acknowledged")).unwrap_or_default();
    let _ = fs::remove_file(place.path("acknowledged"));
    let other = Place::open(&place.root, agentiso_mounts::LayoutOptions::default());
    let abandoned = other.dirs.abandoned().unwrap();
    let count = abandoned.len();
    for workdir in abandoned {
        let ingested = workdir.ingest(&IngestOptions::default()).unwrap();
        assert_eq!(ingested.tree == tree, !workdir.is_touched().unwrap());
        if acknowledged.lines().next() == Some(workdir.name()) {
            let written: Vec<_> = acknowledged.lines().skip(1).collect();
            for name in written {
                assert!(Path::new(&workdir.writable()).join(name).exists(), "{name}");
            }
        }
        workdir.remove().unwrap();
    }
    let names = |name: &str| -> Vec<String> {
        let entries = fs::read_dir(place.path(name)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for directory in ["work", "layouts"] {
        let left: Vec<_> = names(directory)
            .into_iter()
            .filter(|name| name.starts_with(".new") || name.starts_with(".old"))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "{directory}");
    }
    count
}

#[test]
#[ignore = "run by another test"]
fn use_workdir() {
    let place = Place::inherited();
    let tree = fs::read_to_string(place.path("tree")).unwrap();
    let tree = agentiso_store::TreeId::from_hex(&tree).unwrap();
    // Until it is killed.
    for round in 0..1000 {
        let mut workdir = place
            .dirs
            .create(tree, &WorkDirOptions { label: "killed".to_owned(), kind: Kind::Overlay })
            .unwrap();
        let mut lines = format!("{}\n", workdir.name());
        for file in 0..3 {
            let name = format!("file-{round}-{file}");
            fs::write(workdir.writable().join(&name), "x").unwrap();
            lines.push_str(&format!("{name}\n"));
            fs::write(place.path("acknowledged.new"), &lines).unwrap();
            fs::rename(place.path("acknowledged.new"), place.path("acknowledged")).unwrap();
            workdir.ingest(&IngestOptions::default()).unwrap();
        }
        let _ = fs::remove_file(place.path("acknowledged"));
        workdir.reset(tree).unwrap();
        workdir.remove().unwrap();
    }
}
