//! A disk that is full, fails or cannot be written to.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentiso_core::{Code, Explain};
use agentiso_store::{
    GcOptions, ImportOptions, MaterialiseOptions, Options, Root, Steps, Store, StoreError, check, collect,
    import_directory, materialise,
};

use crate::support::*;

/// A store whose disk is full from a step on.
fn failing(root: &Path, at: usize) -> Store {
    let count = AtomicUsize::new(0);
    let steps = Steps::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= at {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    });
    Store::open(root, Options { steps }).unwrap()
}

type Operation = fn(&Store, &Place, agentiso_store::TreeId) -> Result<(), StoreError>;

#[test]
fn an_operation_that_runs_out_of_space_at_any_step_changes_nothing() {
    let place = Place::new();
    fill(&place.path("in"), 2, 3);
    let (kept, lease) = place.tree(&[("kept", "kept")]);
    drop(lease);
    let operations: [(&str, Operation); 3] = [
        ("import", |store, place, _| {
            let session = store.begin()?;
            let options = ImportOptions { threads: 1, ..ImportOptions::default() };
            let imported = import_directory(&session, &place.path("in"), &options)?;
            session.commit(&[Root::Tree(imported.tree)]).map(drop)
        }),
        ("gc", |store, _, kept| collect(store, GcOptions { min_waste_percent: 0 }, roots(&[kept])).map(drop)),
        ("export", |store, place, kept| {
            materialise(store, kept, &place.path("out"), &MaterialiseOptions::default()).map(drop)
        }),
    ];
    for (name, operation) in operations {
        for at in 0..200 {
            let result = operation(&failing(place.store.root(), at), &place, kept);
            assert_eq!(place.files_below("tmp").len(), 0, "{name} left a file at step {at}");
            let store = place.reopened();
            let report = check(&store, &[("kept".to_owned(), Root::Tree(kept))]).unwrap();
            assert!(report.is_clean(), "{name} at step {at}: {report:?}");
            match result {
                Ok(()) => {
                    assert!(at > 0, "{name} has no steps");
                    break;
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::DiskFull, "{name}: {error:?}");
                    assert!(error.remedy().is_some());
                    assert!(!place.path("out").exists());
                }
            }
        }
    }
    // in, out and the store, and no directory that was given up.
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 3);
}

/// Runs a test of this file in a mount namespace of its own, after a shell command that prepares it.
pub fn in_namespace(prepare: &str, place: &Place, test: &str) {
    let script = format!("{prepare}; exec \"$0\" --exact {test} --ignored --quiet");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-e", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("STORE_TEST_PLACE", place.dir.path())
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
}

pub fn inherited() -> std::path::PathBuf {
    std::env::var_os("STORE_TEST_PLACE").unwrap().into()
}

#[test]
fn a_full_file_system_is_reported_and_leaves_no_temporary_file() {
    let place = Place::new();
    std::fs::create_dir(place.path("small")).unwrap();
    fill(&place.path("in"), 4, 4);
    let random: Vec<u8> =
        (0..1_500_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    write(&place.path("in/large"), random);
    let prepare = format!("mount -t tmpfs -o size=2m tmpfs {}", place.path("small").display());
    in_namespace(&prepare, &place, "space::full");
}

#[test]
#[ignore = "another test runs it in a namespace of its own"]
fn full() {
    let place = inherited();
    let root = place.join("small/store");
    let store = Store::open_or_create(&root, Options::default()).unwrap();
    let session = store.begin().unwrap();
    let (error, tree) = match import_directory(&session, &place.join("in"), &ImportOptions::default()) {
        Err(error) => (error, None),
        Ok(imported) => {
            let tree = imported.tree;
            (session.commit(&[Root::Tree(tree)]).unwrap_err(), Some(tree))
        }
    };
    assert_eq!(tree, None, "6 MB fitted into 2");
    assert_eq!(error.code(), Code::DiskFull, "{error:?}");
    assert_eq!(std::fs::read_dir(root.join("packs")).unwrap().count(), 0);
    let left = std::fs::read_dir(root.join("tmp")).unwrap().count();
    assert_eq!(left, 1, "the session still has its pack");
}

#[test]
fn a_read_only_file_system_can_be_read_and_refuses_writes() {
    let place = Place::new();
    let (tree, lease) = place.tree(&[("a", "text")]);
    drop(lease);
    std::fs::write(place.path("tree"), tree.to_string()).unwrap();
    let dir = place.dir.path().display();
    in_namespace(
        &format!("mount --bind {dir} {dir}; mount -o remount,bind,ro {dir}"),
        &place,
        "space::read_only",
    );
}

#[test]
#[ignore = "another test runs it in a namespace of its own"]
fn read_only() {
    let place = inherited();
    let store = Store::open(&place.join("store"), Options::default()).unwrap();
    let tree =
        agentiso_store::TreeId::from_hex(&std::fs::read_to_string(place.join("tree")).unwrap()).unwrap();
    assert_eq!(texts(&store, tree).get("/a").unwrap(), "text");
    assert!(check(&store, &[("tree".to_owned(), Root::Tree(tree))]).unwrap().is_clean());
    let begun = store.begin();
    assert_eq!(begun.unwrap_err().code(), Code::PermissionDenied);
    let collected = collect(&store, GcOptions::default(), roots(&[tree]));
    assert_eq!(collected.unwrap_err().code(), Code::PermissionDenied);
    let exported = materialise(&store, tree, &place.join("out"), &MaterialiseOptions::default());
    assert_eq!(exported.unwrap_err().code(), Code::PermissionDenied);
}
