//! Measures the latency of reads and writes, alone and concurrent, and how long they delay other tasks.
//!
//! ```text
//! cargo bench -p agentiso-meta --bench access
//! ```
//!
//! Prints one line per figure.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its figures and stops on failure"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentiso_core::ports::records::{EventEnd, TimelineRecords};
use agentiso_core::{DiskId, Resources, WorkspaceId};
use agentiso_meta::{Disk, Meta, MetaError, NewEvent, Workspace, WorkspaceState};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

const WORKSPACES: usize = 100;
const CALLS: usize = 4000;
const CALLERS: usize = 8;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let meta = Arc::new(Meta::open(&dir.path().join("state.db")).expect("a database"));
    let ids: Arc<[WorkspaceId]> = (0..WORKSPACES).map(|number| add(&meta, number)).collect();

    single(&meta, &ids, "plain thread");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (of, their) = (Arc::clone(&meta), Arc::clone(&ids));
    let task = runtime.spawn(async move { single(&of, &their, "tokio worker") });
    runtime.block_on(task).expect("single");
    let (of, their) = (Arc::clone(&meta), Arc::clone(&ids));
    let task = runtime.spawn(async move { single_async(of, their).await });
    runtime.block_on(task).expect("single, async");
    let of = Arc::clone(&meta);
    runtime.block_on(runtime.spawn(async move { entries(&of).await })).expect("entries");
    runtime.block_on(async {
        let of = (&meta, &ids);
        concurrent(of, "reads", |meta, ids, turn| async move { read_one(&meta, &ids, turn) }).await;
        concurrent(of, "writes", |meta, ids, turn| async move { write_one(&meta, &ids, turn) }).await;
        concurrent(of, "3 reads to 1 write", |meta, ids, turn| async move {
            match turn % 4 {
                0 => write_one(&meta, &ids, turn),
                _ => read_one(&meta, &ids, turn),
            }
        })
        .await;
        concurrent(of, "list reads", |meta, _, _| async move { read_list(&meta) }).await;
        concurrent(of, "async reads", read_one_async).await;
        concurrent(of, "async writes", write_one_async).await;
        concurrent(of, "async list reads", read_list_async).await;
    });
}

fn read_one(meta: &Meta, ids: &[WorkspaceId], turn: usize) -> Result<(), MetaError> {
    meta.read(|read| read.workspace(ids[turn % ids.len()])).map(drop)
}

fn write_one(meta: &Meta, ids: &[WorkspaceId], turn: usize) -> Result<(), MetaError> {
    meta.write(|tx| tx.set_running(ids[turn % ids.len()], &json!({ "pid": turn })))
}

fn read_list(meta: &Meta) -> Result<(), MetaError> {
    meta.read(|read| read.workspaces()).map(drop)
}

async fn read_one_async(meta: Arc<Meta>, ids: Arc<[WorkspaceId]>, turn: usize) -> Result<(), MetaError> {
    let id = ids[turn % ids.len()];
    meta.read_async(move |read| read.workspace(id)).await.map(drop)
}

async fn write_one_async(meta: Arc<Meta>, ids: Arc<[WorkspaceId]>, turn: usize) -> Result<(), MetaError> {
    let id = ids[turn % ids.len()];
    meta.write_async(move |tx| tx.set_running(id, &json!({ "pid": turn }))).await
}

async fn read_list_async(meta: Arc<Meta>, _: Arc<[WorkspaceId]>, _: usize) -> Result<(), MetaError> {
    meta.read_async(|read| read.workspaces()).await.map(drop)
}

/// Sequential calls from one caller.
fn single(meta: &Meta, ids: &[WorkspaceId], place: &str) {
    let time = |what: &str, call: &dyn Fn(usize) -> Result<(), MetaError>| {
        let mut took: Vec<Duration> = (0..CALLS)
            .map(|turn| {
                let began = Instant::now();
                call(turn).expect("a call");
                began.elapsed()
            })
            .collect();
        println!("{:<46}{}", format!("one caller, {place}, {what}"), figures(&mut took));
    };
    time("read", &|turn| read_one(meta, ids, turn));
    time("read of a list", &|_| read_list(meta));
    time("write", &|turn| write_one(meta, ids, turn));
    time("write, read", &|turn| write_one(meta, ids, turn).and_then(|()| read_one(meta, ids, turn)));
}

async fn single_async(meta: Arc<Meta>, ids: Arc<[WorkspaceId]>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for turn in 0..CALLS {
        let began = Instant::now();
        read_one_async(Arc::clone(&meta), Arc::clone(&ids), turn).await.expect("a read");
        reads.push(began.elapsed());
        let began = Instant::now();
        write_one_async(Arc::clone(&meta), Arc::clone(&ids), turn).await.expect("a write");
        writes.push(began.elapsed());
    }
    println!("{:<46}{}", "one caller, async read", figures(&mut reads));
    println!("{:<46}{}", "one caller, async write", figures(&mut writes));
}

/// What an action that changes something pays for its timeline entry, and what a daemon pays for looking at all of them.
async fn entries(meta: &Meta) {
    let event = NewEvent {
        at: Timestamp::now(),
        workspace: None,
        workspace_name: None,
        session: None,
        client: "bench".to_owned(),
        action: "exec".to_owned(),
        detail: json!({ "command": "make -j8 all && make check" }),
        duration: Duration::ZERO,
        outcome: "ok".to_owned(),
        changed: None,
    };
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let began = Instant::now();
        let id = meta.begin_event(&event).await.expect("an entry");
        let (duration, outcome) = (Duration::from_millis(1), "ok".to_owned());
        let end = EventEnd { id, workspace: None, duration, outcome, changed: None };
        meta.complete_events(&[end]).await.expect("its end");
        took.push(began.elapsed());
    }
    println!("{:<46}{}", "timeline entry, begun and completed", figures(&mut took));
    for _ in 0..100 {
        meta.append_events(&vec![event.clone(); 1000]).await.expect("entries");
    }
    let newest = meta.newest_event().await.expect("the newest");
    let began = Instant::now();
    meta.interrupt_events(newest).await.expect("a look");
    println!("{:<46}{:?}", "100,000 entries, looked at for unfinished", began.elapsed());
}

/// Several tasks at once, next to one that measures how late a timer of a millisecond fires.
async fn concurrent<Call: Future<Output = Result<(), MetaError>> + Send>(
    (meta, ids): (&Arc<Meta>, &Arc<[WorkspaceId]>),
    what: &str,
    call: impl Fn(Arc<Meta>, Arc<[WorkspaceId]>, usize) -> Call + Copy + Send + 'static,
) {
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let neighbour = tokio::spawn(async move {
        let mut late = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            late.push(began.elapsed().saturating_sub(Duration::from_millis(1)));
        }
        late
    });
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (meta, ids) = (Arc::clone(meta), Arc::clone(ids));
            tokio::spawn(async move {
                let mut took = Vec::new();
                for turn in 0..CALLS / CALLERS {
                    let began = Instant::now();
                    let made = call(Arc::clone(&meta), Arc::clone(&ids), caller + turn * CALLERS).await;
                    made.expect("a call");
                    took.push(began.elapsed());
                    tokio::task::yield_now().await;
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.expect("a caller"));
    }
    let elapsed = began.elapsed();
    done.store(true, Ordering::Relaxed);
    let mut late = neighbour.await.expect("the neighbour");
    println!("{:<46}{}", format!("{CALLERS} callers, {what}"), figures(&mut took));
    let rate = took.len() as f64 / elapsed.as_secs_f64();
    println!("{:<46}{rate:.0}/s", format!("{CALLERS} callers, {what}, throughput"));
    println!("{:<46}{}", format!("{CALLERS} callers, {what}, neighbour late"), figures(&mut late));
}

fn figures(took: &mut [Duration]) -> String {
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    format!("median {:7.1} us   p99 {:8.1} us   max {:9.1} us", at(0.5), at(0.99), at(1.0))
}

fn add(meta: &Meta, number: usize) -> WorkspaceId {
    let disk =
        Disk { id: DiskId::from_uuid(Uuid::now_v7()), parent: None, frozen: false, span: 1, workspace: None };
    let workspace = Workspace {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        name: format!("w{number}").parse().expect("a name"),
        image: "debian".parse().expect("a name"),
        image_identity: "blake3:0123".to_owned(),
        resources: Resources::default(),
        created: Timestamp::now(),
        state: WorkspaceState::Stopped { reason: None },
        disk: disk.id,
        position: None,
        lineage: None,
        from_pool: false,
        tier: "template".to_owned(),
        network: Default::default(),
    };
    let added = meta.write(|tx| {
        tx.insert_disk(&disk)?;
        tx.insert_workspace(&workspace)
    });
    added.map(|()| workspace.id).expect("a workspace")
}
