//! Forking workspaces.

use std::time::Instant;

use agentiso_core::action::forms::MAX_FORKS;
use agentiso_core::action::{ForkFailure, ForkedFrom, State, Worker, WorkspaceFork, WorkspaceForked};
use agentiso_core::admission::Amounts;
use agentiso_core::ports::host::{ForkRequest, ForkSource, Forked, RemoveRequest};
use agentiso_core::ports::records::Workspace;
use agentiso_core::{Code, Failure, NetworkChange, NetworkRules, WorkspaceName};
use jiff::Timestamp;

use crate::act::Context;
use crate::env::MachineEnv;
use crate::events::EventKind;
use crate::views::{shown, took_ms};
use crate::{Access, Perform};

/// The default prefix of the names of several forks.
const PREFIX: &str = "worker";

impl Perform for WorkspaceFork {
    const ACCESS: Access = Access::Copies;

    async fn perform(self, context: &Context) -> Result<WorkspaceForked, Failure> {
        let key = self.idempotency_key.clone();
        context.once(key.as_ref(), &self, multiply(self.clone(), context)).await
    }

    fn changed(outcome: &WorkspaceForked) -> Option<String> {
        let names: Vec<&str> = outcome.workers.iter().map(|worker| worker.name.as_str()).take(10).collect();
        Some(format!("{} forks: {}", outcome.success_count, names.join(", ")))
    }
}

async fn multiply(fork: WorkspaceFork, context: &Context) -> Result<WorkspaceForked, Failure> {
    let (source, engine) = (context.workspace()?, &context.engine);
    let count = fork.count.unwrap_or(1);
    if !(1..=MAX_FORKS).contains(&count) {
        let message = format!("count must be 1 to {MAX_FORKS}, not {count}");
        return Err(Failure::new(Code::InvalidArgument, message));
    }
    let name = name_of(&fork, count)?;
    let secrets = secrets_of_forks(context, source, fork.secrets).await?;
    let suspended = engine.records.suspended_to(source.id).await?;
    // The present state of a suspended workspace is the snapshot it was suspended to.
    let snapshot = context.snapshot_if_any().or(suspended.as_ref());
    let source_kind = match snapshot {
        Some(snapshot) => ForkSource::Snapshot { id: snapshot.id, disk_only: fork.disk_only },
        None if fork.disk_only => {
            return Err(Failure::new(Code::InvalidArgument, "disk_only needs a snapshot_name")
                .with_remedy("take a snapshot first, or leave disk_only out"));
        }
        None => ForkSource::Now,
    };
    let size = match snapshot {
        None => source.resources,
        Some(snapshot) => engine.host.size_at(source.id, snapshot.id).await?,
    };
    let _reserved =
        engine.quota.reserve(engine, context.caller.session, Amounts::of(&size).times(count)).await?;
    let network = rules_of_forks(context, source, fork.network.as_ref()).await?;
    let request = ForkRequest {
        workspace: source.id,
        source: source_kind,
        name,
        count,
        all_or_nothing: fork.all_or_nothing,
        owner: context.caller.session,
        network,
    };
    let began = Instant::now();
    let outcome = engine.host.fork(&request, &context.progress).await?;
    let had = match (context.snapshot_if_any(), snapshot) {
        (_, Some(snapshot)) if fork.disk_only || snapshot.memory.is_none() => MachineEnv::Empty,
        (Some(_), _) => MachineEnv::Stale,
        (None, _) => MachineEnv::Current,
    };
    let made = settle(context, source, outcome.forks, had, &secrets).await;
    let from = ForkedFrom {
        source_workspace_id: source.id.to_string(),
        source_workspace_name: source.name.to_string(),
        snapshot_name: fork.snapshot_name,
        forked_at: shown(Timestamp::now()),
        depth: source.depth() + 1,
    };
    report(count, from, made, outcome.pause.as_secs_f64() * 1000.0, began)
}

/// The rules of forks if they differ from those of their source: after a change, and without what is open for a limited
/// time.
async fn rules_of_forks(
    context: &Context,
    source: &Workspace,
    change: Option<&NetworkChange>,
) -> Result<Option<NetworkRules>, Failure> {
    let (engine, inherited) = (&context.engine, &source.network.rules);
    let lasting = engine.lasting_rules(source.id, inherited).await?;
    let running = source.machine().is_some().then_some(source.id);
    let new = match change {
        Some(change) => engine.rules_after(&context.caller, &lasting, change, running).await?.rules,
        None => lasting,
    };
    Ok(Some(new).filter(|new| new != inherited))
}

/// The secrets that forks may use: by default none. Only the operator decides who may use secrets.
async fn secrets_of_forks(
    context: &Context,
    source: &Workspace,
    requested: bool,
) -> Result<Vec<String>, Failure> {
    if !requested {
        return Ok(Vec::new());
    }
    context.require_operator()?;
    context.engine.host.granted_secrets(source.id).await
}

/// The results of the forks.
#[derive(Default)]
struct Made {
    workers: Vec<Worker>,
    failures: Vec<ForkFailure>,
    /// The first failure, whose cause is reported if no fork could be made.
    cause: Option<Failure>,
}

impl Made {
    fn fail(&mut self, index: u32, name: &WorkspaceName, failure: Failure) {
        self.failures.push(ForkFailure {
            index,
            name: name.to_string(),
            code: failure.code(),
            error: failure.message().to_owned(),
        });
        self.cause.get_or_insert(failure);
    }
}

/// Gives the forks the variables of their source, and these secrets.
async fn settle(
    context: &Context,
    source: &Workspace,
    forks: Vec<Forked>,
    had: MachineEnv,
    secrets: &[String],
) -> Made {
    let engine = &context.engine;
    let mut made = Made::default();
    for (index, fork) in (1..).zip(forks) {
        let view = match fork.result {
            Ok((view, _)) => view,
            Err(failure) => {
                made.fail(index, &fork.name, failure);
                continue;
            }
        };
        let equipped = async {
            engine.copy_env(source.id, view.id, had).await?;
            match secrets {
                [] => Ok(()),
                secrets => engine.host.grant_secrets(view.id, secrets).await,
            }
        };
        if let Err(failure) = equipped.await {
            made.fail(index, &fork.name, failure);
            let remove = RemoveRequest { workspace: view.id, force: true };
            if let Err(failure) = engine.host.remove(&remove).await {
                tracing::warn!(%failure, "could not remove a fork that failed");
            }
            continue;
        }
        engine.watch(view.id).await;
        let note = Some(format!("a fork of {}", source.name));
        engine.events.tell(EventKind::Created, view.id, view.name.as_str(), note).await;
        made.workers.push(Worker {
            workspace_id: view.id.to_string(),
            name: view.name.to_string(),
            ip: view.network.address.map(|address| address.to_string()),
        });
    }
    made
}

fn report(
    requested: u32,
    forked_from: ForkedFrom,
    made: Made,
    source_pause_ms: f64,
    began: Instant,
) -> Result<WorkspaceForked, Failure> {
    let Made { workers, failures, cause } = made;
    if let (true, Some(cause)) = (workers.is_empty(), cause) {
        let failure = Failure::new(cause.code(), format!("no fork could be made: {}", cause.message()));
        return Err(match cause.remedy() {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        });
    }
    let only = if requested == 1 { workers.first().cloned() } else { None };
    Ok(WorkspaceForked {
        workspace_id: only.as_ref().map(|one| one.workspace_id.clone()),
        name: only.as_ref().map(|one| one.name.clone()),
        state: only.as_ref().map(|_| State::Running),
        ip: only.and_then(|one| one.ip),
        forked_from,
        requested_count: requested,
        success_count: u32::try_from(workers.len()).unwrap_or(u32::MAX),
        failure_count: u32::try_from(failures.len()).unwrap_or(u32::MAX),
        workers,
        failures,
        source_pause_ms,
        took_ms: took_ms(began),
    })
}

/// The name of one fork, or the prefix of the names of several.
fn name_of(fork: &WorkspaceFork, count: u32) -> Result<Option<WorkspaceName>, Failure> {
    match (&fork.new_name, &fork.name_prefix) {
        (Some(_), Some(_)) => {
            Err(Failure::new(Code::InvalidArgument, "give new_name or name_prefix, not both"))
        }
        (Some(_), None) if count > 1 => Err(Failure::new(Code::InvalidArgument, "new_name is for one fork")
            .with_remedy("give name_prefix for several")),
        (Some(name), None) | (None, Some(name)) => Ok(Some(name.parse()?)),
        (None, None) if count > 1 => Ok(Some(PREFIX.parse()?)),
        (None, None) => Ok(None),
    }
}
