//! Concurrent reads and writes in one process, on plain threads and in async tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use agentiso_meta::{Gate, Meta, MetaError};
use rusqlite::Connection;
use serde_json::json;

use crate::builders::{State, disk, workspace};

/// More reads than may run concurrently.
const MANY: usize = 64;

fn names(meta: &Meta) -> Vec<String> {
    let all = meta.read(|read| read.workspaces()).unwrap();
    all.into_iter().map(|workspace| workspace.name.to_string()).collect()
}

fn log_length(meta: &Meta) -> u64 {
    let mut log = meta.path().as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).unwrap().len()
}

/// Writes several pages.
fn write_much(meta: &Meta) {
    let about = json!({ "filler": "x".repeat(100_000) });
    meta.write(|tx| tx.begin("filler", None, &about).and_then(|id| tx.complete(id))).unwrap();
}

#[test]
fn reads_neither_see_nor_wait_for_an_unfinished_write() {
    let state = State::new();
    let disk = disk(None);
    let inside = state.meta.write(|tx| {
        tx.insert_disk(&disk)?;
        tx.insert_workspace(&workspace("web", disk.id))?;
        // On another thread, like other callers. It returns while this write is still open.
        Ok(thread::scope(|scope| scope.spawn(|| names(&state.meta)).join().unwrap()))
    });
    assert_eq!(inside.unwrap(), [""; 0]);
    assert_eq!(names(&state.meta), ["web"], "a read after the write returned sees it");
}

#[test]
fn a_read_sees_a_consistent_view_during_writes() {
    let state = State::new();
    state.add("first");
    let (before, after) = state
        .meta
        .read(|read| {
            let before = read.workspaces()?.len();
            thread::scope(|scope| scope.spawn(|| state.add("second")).join().unwrap());
            Ok((before, read.workspaces()?.len()))
        })
        .unwrap();
    assert_eq!((before, after), (1, 1));
    assert_eq!(names(&state.meta), ["first", "second"]);
}

#[test]
fn every_thread_sees_its_own_completed_writes() {
    let state = State::new();
    thread::scope(|scope| {
        for thread in 0..8 {
            let state = &state;
            scope.spawn(move || {
                for number in 0..20 {
                    let name = format!("w{thread}-{number}");
                    let id = state.add(&name).id;
                    assert_eq!(state.get(id).name.to_string(), name);
                }
            });
        }
    });
    assert_eq!(names(&state.meta).len(), 160);
    state.meta.verify().unwrap();
}

#[test]
fn reads_beyond_the_limit_wait_and_complete() {
    let state = State::new();
    state.add("web");
    // As many as may run concurrently meet inside their reads; the others wait for one of them to end.
    let running = thread::available_parallelism().unwrap().get().clamp(4, 16);
    assert!(running < MANY);
    let together = Barrier::new(running);
    let answered = thread::scope(|scope| {
        let full: Vec<_> = (0..running)
            .map(|_| {
                scope.spawn(|| {
                    state.meta.read(|read| {
                        together.wait();
                        Ok(read.workspaces()?.len())
                    })
                })
            })
            .collect();
        let rest: Vec<_> =
            (0..MANY).map(|_| scope.spawn(|| state.meta.read(|read| Ok(read.workspaces()?.len())))).collect();
        full.into_iter().chain(rest).map(|thread| thread.join().unwrap().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(answered, vec![1; running + MANY]);
}

#[test]
fn a_write_does_not_wait_for_a_read_connection() {
    let state = State::new();
    let running = thread::available_parallelism().unwrap().get().clamp(4, 16);
    let (inside, written) = (Barrier::new(running + 1), Barrier::new(running + 1));
    thread::scope(|scope| {
        for _ in 0..running {
            scope.spawn(|| {
                let read = state.meta.read(|_| {
                    inside.wait();
                    written.wait();
                    Ok(())
                });
                read.unwrap();
            });
        }
        inside.wait();
        state.add("web");
        written.wait();
    });
    assert_eq!(names(&state.meta), ["web"]);
}

#[test]
fn a_panic_in_a_transaction_changes_nothing_and_blocks_nobody() {
    let state = State::new();
    let web = state.add("web");
    for _ in 0..MANY {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            state.meta.write(|tx| -> Result<(), MetaError> {
                tx.set_running(web.id, &json!({}))?;
                panic!("in a write");
            })
        }));
        assert!(panicked.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            state.meta.read(|read| -> Result<(), MetaError> {
                read.workspaces()?;
                panic!("in a read");
            })
        }));
        assert!(panicked.is_err());
    }
    assert_eq!(state.get(web.id), web);
    state.add("next");
}

#[test]
fn the_wal_is_restarted_during_reads_without_loss() {
    let state = State::new();
    let done = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                state.meta.read(|read| read.workspaces()).unwrap();
            }
        });
        let mut longest = 0;
        for number in 0..600 {
            write_much(&state.meta);
            if number % 100 == 0 {
                state.add(&format!("w{number}"));
            }
            longest = longest.max(log_length(&state.meta));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        longest
    });
    assert_eq!(names(&state.meta).len(), 6);
    state.meta.verify().unwrap();
    assert!(longest > 2 << 20, "the WAL was never long enough for this test: {longest}");
    let State { meta, dir: _dir } = state;
    let path = meta.path().to_owned();
    drop(meta);
    let meta = Meta::open(&path).unwrap();
    assert_eq!(log_length(&meta), 0, "a long WAL is truncated when the database is closed");
    assert_eq!(names(&meta).len(), 6);
}

#[test]
fn the_database_can_be_closed_while_another_process_reads() {
    let state = State::new();
    let other = state.reopen();
    (0..30).for_each(|_| write_much(&state.meta));
    let path = state.meta.path().to_owned();
    let State { meta, dir: _dir } = state;
    let seen = other.read(|read| {
        let before = read.workspaces()?.len();
        drop(meta);
        Ok((before, read.workspaces()?.len()))
    });
    assert_eq!(seen.unwrap(), (0, 0));
    drop(other);
    Meta::open(&path).unwrap().verify().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_locked_database_does_not_block_other_tasks() {
    let state = State::new();
    let holder = Connection::open(state.meta.path()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let State { meta, dir: _dir } = state;
    let meta = Arc::new(meta);
    let writer = Arc::clone(&meta);
    let write = tokio::spawn(async move { writer.write(|tx| tx.insert_disk(&disk(None))) });
    // With one worker thread, this could not run before the write gave up if the write blocked the thread.
    tokio::spawn(async move { holder.execute_batch("COMMIT") }).await.unwrap().unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(meta.read(|read| read.disks()).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_write_that_waits_for_another_does_not_block_other_tasks() {
    let state = State::new();
    let State { meta, dir: _dir } = state;
    let meta = Arc::new(meta);
    let (inside, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    let first = Arc::clone(&meta);
    let first = thread::spawn(move || {
        first.write(|tx| {
            inside.send(()).unwrap();
            left.recv().unwrap();
            tx.insert_disk(&disk(None))
        })
    });
    entered.recv().unwrap();
    let second = Arc::clone(&meta);
    let second = tokio::spawn(async move { second.write(|tx| tx.insert_disk(&disk(None))) });
    // With one worker thread, this could never run if the second write blocked the thread.
    tokio::spawn(async move { leave.send(()) }).await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    first.join().unwrap().unwrap();
    assert_eq!(meta.read(|read| read.disks()).unwrap().len(), 2);
}

#[tokio::test]
async fn async_writes_happen_in_order_and_async_reads_see_them() {
    let state = State::new();
    let web = state.add("web").id;
    let meta = &state.meta;
    let writes = (0..MANY).map(|pid| meta.write_async(move |tx| tx.set_running(web, &json!({ "pid": pid }))));
    for write in writes {
        write.await.unwrap();
    }
    let seen = meta.read_async(move |read| read.workspace(web)).await.unwrap();
    assert_eq!(seen.machine(), Some(&json!({ "pid": MANY - 1 })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_async_calls_all_complete() {
    let State { meta, dir: _dir } = State::new();
    let meta = Arc::new(meta);
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let meta = Arc::clone(&meta);
        callers.spawn(async move {
            let disk = disk(None);
            let workspace = workspace(&format!("w{number}"), disk.id);
            let id = workspace.id;
            let add = meta.write_async(move |tx| {
                tx.insert_disk(&disk)?;
                tx.insert_workspace(&workspace)
            });
            add.await.unwrap();
            meta.read_async(move |read| read.workspace(id)).await.unwrap();
        });
    }
    callers.join_all().await;
    assert_eq!(names(&meta).len(), MANY);
}

#[tokio::test]
async fn a_panic_in_an_async_write_reaches_the_caller_and_changes_nothing() {
    let State { meta, dir: _dir } = State::new();
    let meta = Arc::new(meta);
    let caller = Arc::clone(&meta);
    let panicked = tokio::spawn(async move {
        let write = caller.write_async(|tx| -> Result<(), MetaError> {
            tx.insert_disk(&disk(None))?;
            panic!("in an async write");
        });
        write.await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(meta.read_async(|read| read.disks()).await.unwrap().is_empty());
    meta.write_async(|tx| tx.insert_disk(&disk(None))).await.unwrap();
}

#[tokio::test]
async fn a_write_whose_caller_is_gone_completes_or_never_begins_before_closing() {
    let state = State::new();
    let path = state.meta.path().to_owned();
    let State { meta, dir: _dir } = state;
    for _ in 0..MANY {
        let change = meta.write_async(|tx| {
            tx.insert_disk(&disk(None))?;
            tx.begin("create", None, &json!({}))
        });
        tokio::select! {
            biased;
            done = change => drop(done.unwrap()),
            () = std::future::ready(()) => {}
        }
    }
    drop(meta);
    let meta = Meta::open(&path).unwrap();
    let (disks, operations) = meta.read(|read| Ok((read.disks()?.len(), read.operations()?.len()))).unwrap();
    assert_eq!(disks, operations);
}

#[tokio::test]
async fn the_gate_applies_to_every_kind_of_transaction() {
    let State { meta, dir: _dir } = State::new();
    let open = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&open);
    let meta = meta.with_gate(Gate::new(move || asked.load(Ordering::Relaxed)));
    assert!(meta.read(|read| read.disks()).is_err());
    assert!(meta.write(|tx| tx.insert_disk(&disk(None))).is_err());
    assert!(meta.read_async(|read| read.disks()).await.is_err());
    assert!(meta.write_async(|tx| tx.insert_disk(&disk(None))).await.is_err());
    open.store(true, Ordering::Relaxed);
    assert!(meta.read(|read| read.disks()).unwrap().is_empty());
}
