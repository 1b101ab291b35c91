//! Concurrent processes, and processes that are killed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;

use agentiso_core::WorkspaceId;
use agentiso_meta::{Meta, MetaError, Tx};
use serde_json::json;

use crate::builders::{State, disk, take, workspace};
use crate::pool;

const ROLE: &str = "AGENTISO_META_TEST_ROLE";
const DATABASE: &str = "AGENTISO_META_TEST_DATABASE";

/// What the child process does when this test binary is started as one.
#[test]
#[ignore = "started by the tests below"]
fn another_process() {
    let role = std::env::var(ROLE).unwrap();
    let meta = Meta::open(std::env::var(DATABASE).unwrap().as_ref()).unwrap();
    match role.as_str() {
        "dies in a change" => meta.write(|tx| change(tx).map(|()| say_and_wait("changing"))).unwrap(),
        "dies after a change" => {
            meta.write(change).unwrap();
            say_and_wait("changed");
        }
        "adds for ever" => {
            for number in 0.. {
                meta.write(|tx| add_numbered(tx, number)).unwrap();
                say(&format!("added {number}"));
            }
        }
        "empties the pool" => {
            let name = |number| format!("p{}-{number}", std::process::id());
            let taken = (0..).map_while(|number| pool::hand_over(&meta, "small", &name(number)).unwrap());
            taken.for_each(|id| say(&format!("got {id}")));
            say("done");
        }
        other => panic!("nobody plays {other:?}"),
    }
}

/// A change of many parts, to be seen completely or not at all.
fn change(tx: &Tx<'_>) -> Result<(), MetaError> {
    let web = tx.find_workspace("web")?;
    take(tx, web.id, "s1", None)?;
    tx.set_running(web.id, &json!({ "pid": 1 }))?;
    tx.begin("start", Some(web.id), &json!({}))?;
    Ok(())
}

fn add_numbered(tx: &Tx<'_>, number: usize) -> Result<(), MetaError> {
    let disk = disk(None);
    tx.insert_disk(&disk)?;
    tx.insert_workspace(&workspace(&format!("w{number}"), disk.id))?;
    tx.begin("create", None, &json!(number))?;
    Ok(())
}

fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    // The test runner has already written part of a line.
    writeln!(out, "\n{words}").and_then(|()| out.flush()).unwrap();
}

fn say_and_wait(words: &str) {
    say(words);
    loop {
        std::thread::park();
    }
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, state: &State) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "processes::another_process", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DATABASE, state.meta.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line that begins with this text and returns the rest of it.
    fn hear(&mut self, begin: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned)).unwrap()
    }

    /// Kills it with SIGKILL and returns the rest of its output, without an unfinished line.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.map(Result::unwrap).collect()
    }
}

#[test]
fn a_process_killed_during_a_change_has_changed_nothing() {
    let state = State::new();
    let web = state.add("web");
    let mut process = Process::start("dies in a change", &state);
    process.hear("changing");
    assert_eq!(state.get(web.id), web, "readers see the old state and do not wait");
    process.kill();
    assert_eq!(state.get(web.id), web);
    assert!(state.meta.read(|state| state.snapshots(web.id)).unwrap().is_empty());
    assert!(state.meta.read(|state| state.operations()).unwrap().is_empty());
    state.meta.verify().unwrap();
    state.meta.write(change).unwrap();
}

#[test]
fn a_process_killed_after_a_commit_loses_nothing_and_its_operation_shows_that_it_is_dead() {
    let state = State::new();
    let web = state.add("web").id;
    let mut process = Process::start("dies after a change", &state);
    process.hear("changed");
    let owner = || state.meta.read(|state| state.operations_on(web)).unwrap().remove(0).owner;
    assert_eq!(owner().pid, process.child.id());
    assert!(owner().is_alive());
    process.kill();
    assert!(!owner().is_alive());
    assert!(state.get(web).machine().is_some());
    assert_eq!(state.meta.read(|state| state.snapshots(web)).unwrap().len(), 1);
    state.meta.verify().unwrap();
}

#[test]
fn only_one_process_adopts_an_operation_of_a_dead_process() {
    let state = State::new();
    let web = state.add("web").id;
    let mut process = Process::start("dies after a change", &state);
    process.hear("changed");
    process.kill();
    let orphan = state.meta.read(|state| state.operations_on(web)).unwrap().remove(0);
    assert!(state.meta.write(|tx| tx.adopt(&orphan)).unwrap());
    assert!(!state.reopen().write(|tx| tx.adopt(&orphan)).unwrap());
    let adopted = state.meta.read(|state| state.operations_on(web)).unwrap().remove(0);
    assert_eq!(adopted.owner, agentiso_meta::Owner::current().unwrap());
    state.meta.write(|tx| tx.complete(orphan.id)).unwrap();
    assert!(!state.meta.write(|tx| tx.adopt(&orphan)).unwrap());
}

#[test]
fn committed_changes_survive_a_kill_and_none_is_partial() {
    for answers in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        let state = State::new();
        let mut process = Process::start("adds for ever", &state);
        (0..answers).for_each(|_| drop(process.hear("added ")));
        let more = process.kill().iter().filter(|line| line.starts_with("added ")).count();
        // Open the database anew, like the next command: it recovers what the dead process left.
        let path = state.meta.path().to_owned();
        let State { meta, dir: _dir } = state;
        drop(meta);
        let meta = Meta::open(&path).unwrap();
        meta.verify().unwrap();
        let (workspaces, disks, operations) =
            meta.read(|state| Ok((state.workspaces()?, state.disks()?, state.operations()?))).unwrap();
        assert!(workspaces.len() >= answers + more, "{} of {}", workspaces.len(), answers + more);
        assert_eq!((disks.len(), operations.len()), (workspaces.len(), workspaces.len()));
    }
}

#[test]
fn two_processes_never_get_the_same_pool_machine() {
    let state = State::new();
    let machines: BTreeSet<WorkspaceId> = (0..40).map(|age| pool::add(&state, "small", age).id).collect();
    let processes = [(); 2].map(|()| Process::start("empties the pool", &state));
    let mut handed_over = Vec::new();
    for mut process in processes {
        let lines = process.lines.by_ref().map(Result::unwrap).take_while(|line| line != "done");
        handed_over.extend(lines.filter_map(|line| line.strip_prefix("got ").map(str::to_owned)));
        process.kill();
    }
    handed_over.sort();
    assert_eq!(handed_over, machines.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(state.meta.read(|state| state.pool()).unwrap().is_empty());
}

#[test]
fn concurrent_opens_of_a_new_database_all_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (path, start) = (&path, &start);
            scope.spawn(move || {
                start.wait();
                Meta::open(path).unwrap().write(|tx| add_numbered(tx, number)).unwrap();
            });
        }
    });
    assert_eq!(Meta::open(&path).unwrap().read(|state| state.workspaces()).unwrap().len(), 8);
}
