//! Laws that hold for any sequence of changes.

use std::collections::BTreeMap;

use agentiso_vfs::{FileOp, MergeVaults, OnConflict, StateRef, VersionRef};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::support::*;

/// A change of a small set of paths.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Remove(usize),
    Move(usize, usize),
    Undo,
}

const PATHS: [&str; 5] = ["a", "b", "dir/a", "dir/b", "dir/sub/c"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..PATHS.len(), any::<u8>()).prop_map(|(at, text)| Step::Write(at, text)),
        2 => (0..PATHS.len()).prop_map(Step::Remove),
        2 => (0..PATHS.len(), 0..PATHS.len()).prop_map(|(from, to)| Step::Move(from, to)),
        1 => Just(Step::Undo),
    ]
}

fn at(index: usize) -> &'static str {
    PATHS[index]
}

/// Applies a step to the vault and to a map of what it should have; returns whether something changed.
fn apply(place: &Place, vault: &str, step: &Step, model: &mut Vec<BTreeMap<String, String>>) {
    let mut next = model.last().unwrap().clone();
    let key = |index: usize| format!("/{}", at(index));
    match step {
        Step::Write(index, text) => {
            place.write(vault, at(*index), &text.to_string());
            next.insert(key(*index), text.to_string());
            model.push(next);
        }
        Step::Remove(index) => {
            let operation = FileOp::Remove { path: path(at(*index)), recursive: false, force: false };
            let is_done = place.vaults.change(vault, &[operation]).is_ok();
            assert_eq!(is_done, next.remove(&key(*index)).is_some());
            if is_done {
                model.push(next);
            }
        }
        Step::Move(from, to) => {
            let operations =
                [parents(at(*to)), FileOp::Move { from: path(at(*from)), to: path(at(*to)), replace: true }];
            let moved = place.vaults.change(vault, &operations);
            assert_eq!(moved.is_ok(), next.contains_key(&key(*from)));
            if moved.is_ok() && from != to {
                let text = next.remove(&key(*from)).unwrap();
                next.insert(key(*to), text);
                model.push(next);
            }
        }
        Step::Undo => {
            let is_done = place.vaults.undo(vault, 1).is_ok();
            assert_eq!(is_done, model.len() > 1);
            if is_done {
                model.pop();
            }
        }
    }
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn a_vault_has_what_its_changes_say(steps in prop::collection::vec(step(), 1..25)) {
        let place = Place::with_vault();
        let mut model = vec![BTreeMap::new()];
        // A path moved onto itself, or made directories alone, are changes without an effect on the files; they would
        // be undone one by one, so only sequences without them have a simple model.
        let steps: Vec<_> = steps.into_iter().filter(|step| !matches!(step, Step::Move(from, to) if from == to)).collect();
        for step in &steps {
            if let Step::Write(index, text) = step
                && model.last().unwrap().get(&format!("/{}", at(*index))) == Some(&text.to_string())
            {
                continue;
            }
            apply(&place, "v", step, &mut model);
            prop_assert_eq!(&place.texts("v"), model.last().unwrap());
            let view = place.vaults.view("v", &StateRef::Now).unwrap();
            let info = place.vaults.info("v").unwrap();
            prop_assert_eq!(info.totals.files, model.last().unwrap().len() as u64);
            let bytes: usize = model.last().unwrap().values().map(String::len).sum();
            prop_assert_eq!(info.totals.bytes, bytes as u64);
            prop_assert_eq!(view.tree(), info.tree);
        }
    }

    #[test]
    fn the_log_of_a_file_is_everything_that_it_was(texts in prop::collection::vec(prop::option::of(0_u8..4), 1..20)) {
        let place = Place::with_vault();
        let mut expected: Vec<Option<String>> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match text {
                Some(text) => {
                    place.write("v", "dir/f", &text.to_string());
                }
                None if expected.last().is_some_and(Option::is_some) => {
                    // A deletion is that of the file or of its directory.
                    place.remove("v", if index % 2 == 0 { "dir" } else { "dir/f" });
                }
                None => continue,
            }
            let text = text.map(|text| text.to_string());
            if expected.last() != Some(&text) {
                expected.push(text);
            }
        }
        let log = if expected.is_empty() { Vec::new() } else { place.vaults.log("v", &path("dir/f"), 99).unwrap() };
        let mut number = 0;
        for (version, expected) in log.iter().rev().zip(&expected) {
            let found = place.vaults.read_version("v", &path("dir/f"), VersionRef::Revision(version.revision), 9);
            prop_assert_eq!(found.ok().map(|file| String::from_utf8(file.bytes).unwrap()), expected.clone());
            number += u64::from(expected.is_some());
            prop_assert_eq!(version.version, expected.is_some().then_some(number));
        }
        prop_assert_eq!(log.len(), expected.len());
    }

    #[test]
    fn the_changes_of_one_side_alone_are_that_side(steps in prop::collection::vec(step(), 1..10)) {
        let place = Place::with_vault();
        place.write("v", "a", "base");
        place.write("v", "dir/b", "base");
        place.fork("v", "x");
        let mut model = vec![place.texts("x")];
        steps.iter().for_each(|step| apply(&place, "x", step, &mut model));
        place.vaults.merge(&MergeVaults::new("x", "v")).unwrap();
        prop_assert_eq!(place.texts("v"), place.texts("x"));
        // Once more, nothing is left to merge.
        let again = place.vaults.merge(&MergeVaults::new("x", "v")).unwrap();
        prop_assert_eq!(again.changes.total, 0);
    }

    #[test]
    fn the_order_of_disjoint_merges_does_not_matter(order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle()) {
        let place = Place::with_vault();
        for index in 0..4 {
            place.write("v", &format!("d{index}/f"), "base");
        }
        for index in 0..4 {
            place.fork("v", &format!("x{index}"));
            place.write(&format!("x{index}"), &format!("d{index}/f"), &index.to_string());
            place.write(&format!("x{index}"), &format!("d{index}/new"), "new");
        }
        place.fork("v", "sorted");
        for (index, other) in order.into_iter().enumerate() {
            place.vaults.merge(&MergeVaults::new(&format!("x{index}"), "sorted")).unwrap();
            let shuffled = place.vaults.merge(&MergeVaults::new(&format!("x{other}"), "v")).unwrap();
            prop_assert!(shuffled.conflicts.is_empty());
        }
        let trees: Vec<_> = ["v", "sorted"].iter().map(|name| place.vaults.info(name).unwrap().tree).collect();
        prop_assert_eq!(trees[0], trees[1]);
    }

    #[test]
    fn undo_of_a_merge_is_the_state_before(ours in prop::collection::vec(step(), 0..6), theirs in prop::collection::vec(step(), 1..6)) {
        let place = Place::with_vault();
        place.write("v", "a", "base");
        place.fork("v", "x");
        let mut model = vec![place.texts("v")];
        for step in ours.iter().filter(|step| !matches!(step, Step::Undo)) {
            apply(&place, "v", step, &mut model);
        }
        let mut model = vec![place.texts("x")];
        theirs.iter().for_each(|step| apply(&place, "x", step, &mut model));
        let before = place.vaults.info("v").unwrap().tree;
        let request = MergeVaults { on_conflict: OnConflict::Theirs, ..MergeVaults::new("x", "v") };
        let applied = place.vaults.merge(&request).unwrap().applied.unwrap();
        if applied.is_changed {
            place.vaults.undo("v", 1).unwrap();
        }
        prop_assert_eq!(place.vaults.info("v").unwrap().tree, before);
    }
}
