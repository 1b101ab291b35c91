use agentiso_core::{Resources, SessionId, WorkspaceId};
use agentiso_meta::{MetaError, Usage, WorkspaceState};
use serde_json::json;

use crate::builders::{State, disk, pool_machine, session, workspace};

fn add(state: &State, name: &str, owner: Option<SessionId>, memory_mb: u32, runs: bool) -> WorkspaceId {
    let id = state
        .add_with(name, |workspace| {
            workspace.resources = Resources { memory_mb, disk_gb: 7, ..Resources::default() };
            if runs {
                workspace.state = WorkspaceState::Running { machine: json!({}) };
            }
        })
        .id;
    if let Some(owner) = owner {
        state.meta.write(|tx| tx.set_owner(id, Some(owner))).unwrap();
    }
    id
}

#[test]
fn usage_is_counted_per_session_and_in_total() {
    let state = State::new();
    let [mine, theirs] = [(); 2].map(|()| state.add_session().id);
    let usage = |owner| state.meta.read(|state| state.usage(owner)).unwrap();
    assert_eq!(usage(None), Usage::default());
    let first = add(&state, "a", Some(mine), 256, true);
    for name in ["one", "two"] {
        state.snap(first, name);
    }
    add(&state, "b", Some(mine), 512, false);
    add(&state, "c", Some(theirs), 1024, true);
    add(&state, "orphan", None, u32::MAX, true);
    let pooled = disk(None);
    state
        .meta
        .write(|tx| {
            tx.insert_disk(&pooled)?;
            tx.insert_pool_machine(&pool_machine("small", pooled.id))
        })
        .unwrap();

    let expected = Usage { workspaces: 2, memory_mb: 768, running_memory_mb: 256, disk_gb: 14, snapshots: 2 };
    assert_eq!(usage(Some(mine)), expected);
    let expected =
        Usage { workspaces: 1, memory_mb: 1024, running_memory_mb: 1024, disk_gb: 7, snapshots: 0 };
    assert_eq!(usage(Some(theirs)), expected);
    assert_eq!(usage(Some(session().id)), Usage::default());
    let all = u64::from(u32::MAX) + 1024 + 256;
    let expected =
        Usage { workspaces: 4, memory_mb: all + 512, running_memory_mb: all, disk_gb: 28, snapshots: 2 };
    assert_eq!(usage(None), expected);
}

#[test]
fn concurrent_callers_never_exceed_a_quota() {
    const QUOTA: u64 = 3;
    let state = State::new();
    let owner = state.add_session().id;
    let create = |name: String| {
        state.reopen().write(|tx| {
            if tx.usage(Some(owner))?.workspaces == QUOTA {
                return Ok(false);
            }
            let disk = disk(None);
            let workspace = workspace(&name, disk.id);
            tx.insert_disk(&disk)?;
            tx.insert_workspace(&workspace)?;
            tx.set_owner(workspace.id, Some(owner))?;
            Ok::<_, MetaError>(true)
        })
    };
    let create = &create;
    let made: usize = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3]
            .map(|who| scope.spawn(move || [0, 1].map(|round| create(format!("w{who}-{round}")))));
        let answers = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        answers.map(Result::unwrap).filter(|made| *made).count()
    });
    assert_eq!(made, 3);
    assert_eq!(state.meta.read(|state| state.usage(None)).unwrap().workspaces, QUOTA);
}
