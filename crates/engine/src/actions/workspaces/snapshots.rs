//! Snapshots.

use agentiso_core::action::{
    ChangeKind as Changed, FileChange, SnapshotBrief, SnapshotCompared, SnapshotCreate, SnapshotDelete,
    SnapshotDeleted, SnapshotDetails, SnapshotDiff, SnapshotList, SnapshotListed, SnapshotRestore,
    SnapshotRestored, SnapshotTaken, State,
};
use agentiso_core::admission::Amounts;
use agentiso_core::ports::host::{Aspect, Change, ChangeKind, Changes, TextDiff};
use agentiso_core::ports::host::{CompareRequest, Point, SnapshotRequest};
use agentiso_core::ports::link::{ExitStatus, HookOutcome, HookReport};
use agentiso_core::{Code, Failure};

use super::suspend::{is_last_moment, users_snapshot};
use crate::act::Context;
use crate::env::MachineEnv;
use crate::events::EventKind;
use crate::views::shown;
use crate::{Access, Perform};

const LONGEST_DESCRIPTION: usize = 1024;
const CHANGES: usize = 1000;
const MOST_CHANGES: usize = 100_000;

impl Perform for SnapshotCreate {
    const ACCESS: Access = Access::Copies;

    async fn perform(self, context: &Context) -> Result<SnapshotTaken, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        let description = self.description.unwrap_or_default();
        if description.len() > LONGEST_DESCRIPTION {
            let message = format!("description has more than {LONGEST_DESCRIPTION} bytes");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let request = SnapshotRequest {
            workspace: workspace.id,
            name: users_snapshot(&self.name)?,
            description,
            memory: self.include_memory.unwrap_or(false),
        };
        let _reserved = engine.quota.reserve(engine, context.caller.session, Amounts::snapshot()).await?;
        let taken = engine.host.snapshot(&request).await?;
        let note = Some(taken.snapshot.name.to_string());
        engine.events.tell(EventKind::Snapshot, workspace.id, workspace.name.as_str(), note).await;
        Ok(SnapshotTaken {
            snapshot_id: taken.snapshot.id.to_string(),
            name: taken.snapshot.name.to_string(),
            workspace_id: workspace.id.to_string(),
            has_memory: taken.snapshot.memory.is_some(),
            created_at: shown(taken.snapshot.created),
            pause_ms: taken.pause.as_secs_f64() * 1000.0,
            memory_bytes: taken.memory.map(|memory| memory.bytes),
        })
    }

    fn changed(outcome: &SnapshotTaken) -> Option<String> {
        Some(format!("snapshot {}", outcome.name))
    }
}

impl Perform for SnapshotRestore {
    const ACCESS: Access = Access::Changes;
    const ENDS_MACHINE: Option<&'static str> = Some("was restored to a snapshot");

    async fn perform(self, context: &Context) -> Result<SnapshotRestored, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        let snapshot = context.snapshot()?;
        let then = engine.host.size_at(workspace.id, snapshot.id).await?;
        let more = Amounts::disk(then.disk_gb.saturating_sub(workspace.resources.disk_gb));
        let _reserved = engine.quota.reserve(engine, context.caller.session, more).await?;
        let restored =
            engine.host.restore(workspace.id, snapshot.id, self.disk_only, &context.progress).await?;
        // It is no longer where it was suspended.
        engine.forget_last_moment(workspace.id).await?;
        if restored.workspace.state == State::Running {
            engine.apply_env(workspace.id, MachineEnv::Stale).await?;
            engine.watch(workspace.id).await;
        }
        let note = Some(self.snapshot_name.clone());
        engine.events.tell(EventKind::Restored, workspace.id, workspace.name.as_str(), note).await;
        Ok(SnapshotRestored {
            workspace_id: workspace.id.to_string(),
            snapshot_name: self.snapshot_name,
            memory_restored: restored.memory,
            state: restored.workspace.state,
            away_ms: restored.away.as_secs_f64() * 1000.0,
            failed_hooks: failed(&restored.hooks),
        })
    }

    fn changed(outcome: &SnapshotRestored) -> Option<String> {
        Some(format!("back at {}", outcome.snapshot_name))
    }
}

fn failed(hooks: &[HookReport]) -> Vec<String> {
    let went_well = |hook: &&HookReport| hook.outcome == HookOutcome::Exited(ExitStatus::Code(0));
    hooks.iter().filter(|hook| !went_well(hook)).map(|hook| hook.name.clone()).collect()
}

impl Perform for SnapshotList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<SnapshotListed, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        let views = engine.host.snapshots(workspace.id).await?;
        let visible = views.into_iter().filter(|view| !is_last_moment(&view.name));
        let snapshots = visible.map(|view| SnapshotDetails {
            brief: SnapshotBrief {
                id: view.id.to_string(),
                name: view.name.to_string(),
                has_memory: view.memory,
                parent: view.parent.map(|parent| parent.to_string()),
                created_at: shown(view.created),
            },
            description: view.description,
            used_bytes: view.used_bytes,
            referenced_bytes: view.referenced_bytes,
            current: view.current,
            forks: view.forks,
            damage: view.damage,
        });
        Ok(SnapshotListed { snapshots: snapshots.collect() })
    }
}

impl Perform for SnapshotDelete {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<SnapshotDeleted, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        engine.host.remove_snapshot(workspace.id, context.snapshot()?.id).await?;
        Ok(SnapshotDeleted {
            workspace_id: workspace.id.to_string(),
            snapshot_name: self.snapshot_name,
            deleted: true,
        })
    }

    fn changed(outcome: &SnapshotDeleted) -> Option<String> {
        Some(format!("snapshot {} deleted", outcome.snapshot_name))
    }
}

impl Perform for SnapshotDiff {
    // Comparing with the present freezes it for an instant.
    const ACCESS: Access = Access::Copies;

    async fn perform(self, context: &Context) -> Result<SnapshotCompared, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        let (before, after) = match *context.points() {
            [before] => (before, Point::Now(workspace.id)),
            [before, after] => (before, after),
            _ => return Err(Failure::new(Code::Internal, "a comparison without its points")),
        };
        let request = CompareRequest { before, after, under: self.path };
        if let Some(file) = self.file {
            let diff = engine.host.compare_file(&request, &file).await?;
            return Ok(SnapshotCompared { diff: Some(text(&diff)), ..empty() });
        }
        let most = self.max_results.unwrap_or(CHANGES).clamp(1, MOST_CHANGES);
        Ok(compared(&engine.host.compare(&request).await?, most))
    }
}

fn empty() -> SnapshotCompared {
    SnapshotCompared {
        changes: Vec::new(),
        added: 0,
        removed: 0,
        modified: 0,
        renamed: 0,
        unreadable: 0,
        truncated: false,
        diff: None,
    }
}

fn text(diff: &TextDiff) -> String {
    match diff {
        TextDiff::Same => "the file is the same at both points".to_owned(),
        TextDiff::Binary => "the file is not text, and differs".to_owned(),
        TextDiff::Text { unified, truncated: false } => unified.clone(),
        TextDiff::Text { unified, truncated: true } => format!("{unified}[more lines differ]\n"),
        TextDiff::TooLarge { .. } => "the file is too large to compare line by line".to_owned(),
    }
}

fn compared(changes: &Changes, most: usize) -> SnapshotCompared {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    SnapshotCompared {
        changes: changes.entries.iter().take(most).map(file_change).collect(),
        added: count(changes.totals.added),
        removed: count(changes.totals.removed),
        modified: count(changes.totals.modified),
        renamed: count(changes.totals.renamed),
        unreadable: count(changes.totals.unreadable),
        truncated: changes.entries.len() > most,
        diff: None,
    }
}

fn file_change(change: &Change) -> FileChange {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let (kind, what, from) = match &change.kind {
        ChangeKind::Added => (Changed::Added, None, None),
        ChangeKind::Removed => (Changed::Removed, None, None),
        ChangeKind::Modified { aspects } => (Changed::Modified, Some(aspects), None),
        ChangeKind::Renamed { from, aspects } => (Changed::Renamed, Some(aspects), Some(text(from))),
        ChangeKind::Unreadable { .. } => (Changed::Unreadable, None, None),
    };
    let what = match &change.kind {
        ChangeKind::Unreadable { reason } => vec![reason.clone()],
        _ => what.into_iter().flatten().map(|aspect| aspect_name(*aspect).to_owned()).collect(),
    };
    FileChange {
        path: text(&change.path),
        change: kind.to_owned(),
        what,
        from,
        old_size: change.before.as_ref().map(|entry| entry.size),
        new_size: change.after.as_ref().map(|entry| entry.size),
    }
}

fn aspect_name(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Content => "content",
        Aspect::Mode => "mode",
        Aspect::Owner => "owner",
        Aspect::Type => "type",
        Aspect::Xattr => "xattrs",
        Aspect::Target => "target",
        Aspect::Device => "device",
    }
}
