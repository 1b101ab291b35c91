//! Several processes on one store. Each opens it by itself, as a process would: locks are per open file.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_store::{GcOptions, Options, Root, Store, StoreError, TreeId, check, collect, tidy};

use crate::support::*;

#[test]
fn writers_readers_and_collections_run_at_once_and_nothing_recorded_is_lost() {
    let place = Place::new();
    let records: Mutex<Vec<(TreeId, String)>> = Mutex::default();
    let is_done = AtomicBool::new(false);
    let open = || Store::open(place.store.root(), Options::default()).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let records = &records;
                scope.spawn(move || {
                    let store = open();
                    for round in 0..25 {
                        let text = format!("writer {writer} round {round}");
                        let session = store.begin().unwrap();
                        // Texts that others have written and abandoned, too.
                        let shared = format!("shared {}", round % 5);
                        let made = tree(&session, &[("own", &text), ("dir/shared", &shared)]);
                        let lease = session.commit(&[Root::Tree(made)]).unwrap();
                        let mut records = records.lock().unwrap();
                        records.push((made, text));
                        // Old records are forgotten, so that there is garbage.
                        if records.len() > 10 {
                            records.remove(0);
                        }
                        drop(records);
                        drop(lease);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let store = open();
            while !is_done.load(Ordering::Relaxed) {
                let read = || {
                    let records = records.lock().unwrap();
                    Ok::<_, StoreError>(records.iter().map(|(tree, _)| Root::Tree(*tree)).collect())
                };
                let collected = collect(&store, GcOptions { min_waste_percent: 0 }, read);
                assert!(collected.is_ok(), "{collected:?}");
                tidy(&store).unwrap();
            }
        });
        scope.spawn(|| {
            let store = open();
            while !is_done.load(Ordering::Relaxed) {
                // Held before it is read, as the documentation asks for.
                let Some((tree, text)) = records.lock().unwrap().last().cloned() else { continue };
                let Ok(_lease) = store.hold(Root::Tree(tree)) else { continue };
                if records.lock().unwrap().iter().any(|(recorded, _)| *recorded == tree) {
                    assert_eq!(texts(&store, tree).get("/own"), Some(&text));
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let roots: Vec<_> =
        records.lock().unwrap().iter().map(|(tree, text)| (text.clone(), Root::Tree(*tree))).collect();
    assert_eq!(roots.len(), 10);
    let report = check(&open(), &roots).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn two_writers_of_the_same_content_agree() {
    let place = Place::new();
    let other = place.reopened();
    let (one, two) = (place.store.begin().unwrap(), other.begin().unwrap());
    let (a, b) = (tree(&one, &[("a", "same")]), tree(&two, &[("a", "same")]));
    assert_eq!(a, b);
    let _first = one.commit(&[Root::Tree(a)]).unwrap();
    let _second = two.commit(&[Root::Tree(b)]).unwrap();
    assert_eq!(texts(&place.reopened(), a).len(), 1);
}

#[test]
fn nothing_is_visible_before_the_commit_and_a_dropped_session_leaves_nothing() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let tree = tree(&session, &[("a", "text")]);
    assert_eq!(texts(&session, tree).len(), 1);
    assert!(agentiso_store::directory(&place.reopened(), tree).is_err());
    drop(session);
    assert_eq!(place.files_below("tmp").len() + place.files_below("packs").len(), 0);
    assert_eq!(place.files_below("leases").len(), 0);
}
