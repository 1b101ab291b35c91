//! Random operations through a real mount do what they do on a plain directory, and are read back exactly.

use std::fs;
use std::path::Path;

use agentiso_mounts::Kind;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::ops::{Op, op, start};
use crate::support::*;

#[test]
fn a_mount_behaves_like_a_plain_directory() {
    everywhere("operations::compared");
}

#[test]
#[ignore = "run by another test"]
fn compared() {
    let place = Place::new();
    let source = place.path("source");
    start(&source);
    let tree = place.import(&source);
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(op(), 1..40), |ops| {
            let plain = place.path("plain");
            let _ = fs::remove_dir_all(&plain);
            start(&plain);
            let expected: Vec<_> = ops.iter().map(|op| op.apply(&plain)).collect();
            fs::write(place.path("ops"), serde_json::to_vec(&ops).unwrap()).unwrap();
            let workdir = place.create(tree, Kind::Overlay);
            let answer = place.run_test(&workdir, "operations::carry_out");
            let results: Vec<Result<(), i32>> = serde_json::from_str(&answer).unwrap();
            prop_assert_eq!(results, expected);
            let ingested = place.ingest(&workdir);
            let differences = place.differences(place.import(&plain), ingested.tree, false);
            prop_assert_eq!(differences, Vec::<String>::new());
            workdir.remove().unwrap();
            Ok(())
        })
        .unwrap();
}

#[test]
#[ignore = "run by another test"]
fn carry_out() {
    let place = Place::inherited();
    let ops: Vec<Op> = serde_json::from_slice(&fs::read(place.path("ops")).unwrap()).unwrap();
    let results: Vec<_> = ops.iter().map(|op| op.apply(Path::new("."))).collect();
    fs::write(place.path("answer"), serde_json::to_vec(&results).unwrap()).unwrap();
}
