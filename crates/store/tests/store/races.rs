//! Files, directories and links that change while they are imported.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentiso_store::{ImportOptions, Imported, Options, Reason, Root, Step, Steps, Store, import_directory};

use crate::support::*;

/// Imports a directory and calls `meddle` with the number of each step before a file is read.
fn import_meddled(place: &Place, meddle: impl Fn(usize) + Send + Sync + 'static) -> (Store, Imported) {
    let count = AtomicUsize::new(0);
    let steps = Steps::new(move |step| {
        if step == Step::ReadFile {
            meddle(count.fetch_add(1, Ordering::Relaxed));
        }
        Ok(())
    });
    let store = Store::open(place.store.root(), Options { steps }).unwrap();
    let session = store.begin().unwrap();
    let options = ImportOptions { threads: 1, ..ImportOptions::default() };
    let imported = import_directory(&session, &place.path("in"), &options).unwrap();
    drop(session.commit(&[Root::Tree(imported.tree)]).unwrap());
    (store, imported)
}

fn reasons(imported: &Imported) -> Vec<(String, Reason)> {
    let mut reasons: Vec<_> =
        imported.report.notices.iter().map(|notice| (notice.path.to_string(), notice.reason)).collect();
    reasons.sort_by(|a, b| a.0.cmp(&b.0));
    reasons
}

fn secret(place: &Place) {
    write(&place.path("outside/secret"), "secret");
    write(&place.path("in/dir/a"), "a");
    write(&place.path("in/dir/secret"), "mine");
    write(&place.path("in/z"), "z");
}

#[test]
fn a_directory_replaced_by_a_link_is_not_followed() {
    let place = Place::new();
    secret(&place);
    let (dir, outside) = (place.path("in/dir"), place.path("outside"));
    let (store, imported) = import_meddled(&place, move |step| {
        if step == 0 {
            fs::rename(&dir, dir.with_extension("moved")).unwrap();
            symlink(&outside, &dir).unwrap();
        }
    });
    let found = texts(&store, imported.tree);
    assert!(!found.values().any(|text| text == "secret"), "{found:?}");
    assert!(imported.report.notice_count > 0);
}

#[test]
fn a_file_replaced_by_a_link_is_stored_as_a_link() {
    let place = Place::new();
    secret(&place);
    let (file, outside) = (place.path("in/dir/secret"), place.path("outside/secret"));
    let (store, imported) = import_meddled(&place, move |step| {
        if step == 0 {
            fs::remove_file(&file).unwrap();
            symlink(&outside, &file).unwrap();
        }
    });
    let found = texts(&store, imported.tree);
    assert!(!found.values().any(|text| text == "secret"), "{found:?}");
    let node = agentiso_store::lookup(&store, imported.tree, &path("dir/secret")).unwrap();
    assert!(matches!(node, Some(agentiso_store::Node::Symlink { .. })), "{node:?}");
}

#[test]
fn a_file_replaced_by_a_pipe_does_not_block() {
    let place = Place::new();
    secret(&place);
    let file = place.path("in/z");
    let (store, imported) = import_meddled(&place, move |step| {
        if step == 0 {
            fs::remove_file(&file).unwrap();
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }
    });
    let node = agentiso_store::lookup(&store, imported.tree, &path("z")).unwrap();
    assert!(matches!(node, Some(agentiso_store::Node::Fifo { .. })), "{node:?}");
}

#[test]
fn a_file_that_vanishes_is_reported() {
    let place = Place::new();
    secret(&place);
    let file = place.path("in/dir/secret");
    let (_, imported) = import_meddled(&place, move |step| {
        if step == 0 {
            fs::remove_file(&file).unwrap();
        }
    });
    let expected =
        [("/dir".to_owned(), Reason::DirectoryChanged), ("/dir/secret".to_owned(), Reason::Vanished)];
    assert_eq!(reasons(&imported), expected);
}

/// A writer that never stops, on a file that takes long to read.
#[test]
fn a_file_that_changes_all_the_time_is_reported_and_consistent_with_its_size() {
    let place = Place::new();
    let path = place.path("in/log");
    write(&path, vec![b'x'; 8 << 20]);
    let is_done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (path, is_done) = (path.clone(), is_done.clone());
        std::thread::spawn(move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, b"more").unwrap();
            }
        })
    };
    let (store, imported) = import_meddled(&place, |_| ());
    is_done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(reasons(&imported), [("/log".to_owned(), Reason::Unstable)]);
    let node = agentiso_store::lookup(&store, imported.tree, &crate::support::path("log")).unwrap();
    let Some(agentiso_store::Node::File(file)) = node else { panic!("{node:?}") };
    let read = agentiso_store::read_content(&store, file.content, file.size, 1 << 30).unwrap();
    assert_eq!(read.len() as u64, file.size);
}
