//! Files, directories and links that change while they are imported.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentiso_store::{
    ImportOptions, Imported, MaterialiseOptions, Options, Reason, Root, Step, Steps, Store, import_directory,
    materialise,
};

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
    import_stepped(place, steps)
}

fn import_stepped(place: &Place, steps: Steps) -> (Store, Imported) {
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

/// Imports a directory and appends to a file each time while it is read, so many times.
fn import_growing(place: &Place, times: usize) -> (Store, Imported) {
    let (file, count) = (place.path("in/log"), AtomicUsize::new(0));
    let steps = Steps::new(move |step| {
        // An object of the file is stored after its bytes were read, and before the check that they did not change.
        if step == Step::AppendObject && count.fetch_add(1, Ordering::Relaxed) < times {
            let mut file = fs::OpenOptions::new().append(true).open(&file)?;
            std::io::Write::write_all(&mut file, b"more")?;
        }
        Ok(())
    });
    import_stepped(place, steps)
}

fn log_of(store: &Store, imported: &Imported) -> Vec<u8> {
    let node = agentiso_store::lookup(store, imported.tree, &path("log")).unwrap();
    let Some(agentiso_store::Node::File(file)) = node else { panic!("{node:?}") };
    let read = agentiso_store::read_content(store, file.content, file.size, 1 << 30).unwrap();
    assert_eq!(read.len() as u64, file.size);
    read
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    for size in [10, 600_000] {
        let place = Place::new();
        write(&place.path("in/log"), vec![b'x'; size]);
        let (store, imported) = import_growing(&place, 1);
        assert_eq!(reasons(&imported), []);
        assert_eq!(log_of(&store, &imported), fs::read(place.path("in/log")).unwrap());
    }
}

#[test]
fn a_file_that_changes_each_time_is_reported_and_consistent_with_its_size() {
    for size in [10, 600_000] {
        let place = Place::new();
        write(&place.path("in/log"), vec![b'x'; size]);
        let (store, imported) = import_growing(&place, usize::MAX);
        assert_eq!(reasons(&imported), [("/log".to_owned(), Reason::Unstable)]);
        assert!(log_of(&store, &imported).len() >= size);
    }
}

/// Exchanges a directory and a link to the outside as fast as possible while the tree is imported again and again.
#[test]
fn a_directory_that_is_exchanged_all_the_time_never_leads_outside() {
    let place = Place::new();
    secret(&place);
    symlink(place.path("outside"), place.path("in/decoy")).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (a, b) = (place.path("in/dir"), place.path("in/decoy"));
            while !is_done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags).unwrap();
            }
        });
        let session = place.store.begin().unwrap();
        for _ in 0..200 {
            let imported = import_directory(&session, &place.path("in"), &ImportOptions::default()).unwrap();
            let found = texts(&session, imported.tree);
            assert!(!found.values().any(|text| text == "secret"), "{found:?}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_export_does_not_write_through_a_link() {
    let place = Place::new();
    fill(&place.path("in"), 3, 3);
    fs::create_dir(place.path("outside")).unwrap();
    let (imported, _lease) = place.import("in");
    let (dir, outside) = (place.dir.path().to_owned(), place.path("outside"));
    let count = AtomicUsize::new(0);
    let steps = Steps::new(move |step| {
        // After the three directories were made, before the first file.
        if step == Step::CreateEntry && count.fetch_add(1, Ordering::Relaxed) == 3 {
            let partial = fs::read_dir(&dir)?.map(|entry| entry.unwrap().path());
            let partial =
                partial.into_iter().find(|path| path.to_string_lossy().contains(".partial-")).unwrap();
            for name in ["dir-0", "dir-1", "dir-2"] {
                fs::rename(partial.join(name), partial.join(format!("moved-{name}")))?;
                symlink(&outside, partial.join(name))?;
            }
        }
        Ok(())
    });
    let store = Store::open(place.store.root(), Options { steps }).unwrap();
    let options = MaterialiseOptions { threads: 1, ..MaterialiseOptions::default() };
    let result = materialise(&store, imported.tree, &place.path("out"), &options);
    assert!(result.is_err(), "{result:?}");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 0);
    assert!(!place.path("out").exists());
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 3, "store, in, outside");
}
