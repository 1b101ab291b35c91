use std::collections::BTreeSet;
use std::sync::Barrier;

use agentiso_core::{Code, Explain, WorkspaceId};
use agentiso_meta::{Meta, MetaError, PoolMachine, Workspace, WorkspaceState};
use jiff::SignedDuration;

use crate::builders::{State, disk, now, pool_machine, workspace};

pub fn add(state: &State, shape: &str, age: i64) -> PoolMachine {
    let disk = disk(None);
    let created = now() - SignedDuration::from_secs(age);
    let machine = PoolMachine { created, ..pool_machine(shape, disk.id) };
    state
        .meta
        .write(|tx| {
            tx.insert_disk(&disk)?;
            tx.insert_pool_machine(&machine)
        })
        .unwrap();
    machine
}

/// Assigns a machine as `create` does: out of the pool and into a workspace in one transaction.
pub fn hand_over(meta: &Meta, shape: &str, name: &str) -> Result<Option<WorkspaceId>, MetaError> {
    meta.write(|tx| {
        let Some(machine) = tx.claim(shape)? else {
            return Ok(None);
        };
        let state = WorkspaceState::Running { machine: machine.machine };
        let id = machine.id;
        tx.insert_workspace(&Workspace { id, state, from_pool: true, ..workspace(name, machine.disk) })?;
        Ok(Some(id))
    })
}

#[test]
fn the_oldest_machine_of_the_shape_is_assigned() {
    let state = State::new();
    let [young, old] = [10, 20].map(|age| add(&state, "small", age));
    let other = add(&state, "large", 30);
    assert_eq!(state.meta.read(|state| state.pool()).unwrap(), [other, old.clone(), young.clone()]);
    let counts = || state.meta.read(|state| state.pool_counts()).unwrap();
    assert_eq!(counts(), [("large".to_owned(), 1), ("small".to_owned(), 2)]);

    assert_eq!(hand_over(&state.meta, "small", "a").unwrap(), Some(old.id));
    assert_eq!(hand_over(&state.meta, "small", "b").unwrap(), Some(young.id));
    assert_eq!(hand_over(&state.meta, "small", "c").unwrap(), None);
    assert_eq!(counts(), [("large".to_owned(), 1)]);
    assert_eq!(state.find("a").unwrap().disk, old.disk);
}

#[test]
fn a_failed_assignment_leaves_the_machine_in_the_pool() {
    let state = State::new();
    let machine = add(&state, "small", 0);
    state.add("taken");
    assert_eq!(hand_over(&state.meta, "small", "taken").unwrap_err().code(), Code::WorkspaceExists);
    assert_eq!(state.meta.read(|state| state.pool()).unwrap(), [machine]);
}

#[test]
fn a_removed_machine_is_not_assigned() {
    let state = State::new();
    let machine = add(&state, "small", 0);
    state.meta.write(|tx| tx.remove_pool_machine(machine.id)).unwrap();
    assert_eq!(hand_over(&state.meta, "small", "a").unwrap(), None);
    let again = state.meta.write(|tx| tx.remove_pool_machine(machine.id)).unwrap_err();
    assert!(matches!(again, MetaError::Missing { what: "pool machine", .. }));
    assert_eq!(state.meta.read(|state| state.unneeded_disks()).unwrap().len(), 1);
}

#[test]
fn concurrent_callers_never_get_the_same_machine() {
    let state = State::new();
    for round in 0..20 {
        let machine = add(&state, "small", 0);
        let start = Barrier::new(4);
        let claim = |who: usize| {
            let meta = state.reopen();
            start.wait();
            hand_over(&meta, "small", &format!("w{round}-{who}")).unwrap()
        };
        let claim = &claim;
        let answers: Vec<_> = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|who| scope.spawn(move || claim(who)));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().flatten().collect::<Vec<_>>(), [&machine.id]);
    }
    let ids: BTreeSet<_> =
        state.meta.read(|state| state.workspaces()).unwrap().iter().map(|w| w.id).collect();
    assert_eq!(ids.len(), 20);
}
