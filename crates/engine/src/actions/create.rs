//! Making and destroying workspaces.

use std::pin::Pin;
use std::time::{Duration, Instant};

use agentiso_core::action::{
    State, Tier, WorkspaceCreate, WorkspaceCreated, WorkspaceDestroy, WorkspaceDestroyed,
};
use agentiso_core::{
    Code, Failure, ImageName, Resources, SessionId, WorkspaceId, WorkspaceName, check_labels,
};
use agentiso_meta::{Claim, Settings};
use agentiso_runtime::workspaces::{CreateRequest, RemoveRequest, WorkspaceView};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::act::Context;
use crate::admission::not_owner;
use crate::clock;
use crate::events::EventKind;
use crate::quota::Asked;
use crate::views::{shown, size, tier, took_ms};
use crate::{Access, Engine, Perform};

/// The longest time a workspace can be given: ten years.
const LONGEST_SECS: u64 = 10 * 365 * 24 * 3600;

impl Perform for WorkspaceCreate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceCreated, Failure> {
        let key = self.idempotency_key.clone();
        context.once(key.as_deref(), &self, self.clone().make(context, Lifetime::UntilDestroyed)).await
    }

    fn is_undone_when_abandoned(&self) -> bool {
        // With a key the caller can ask again.
        self.idempotency_key.is_none()
    }

    async fn undo(outcome: WorkspaceCreated, context: &Context) {
        let (engine, Some(id)) = (&context.engine, Self::made(&outcome)) else { return };
        let remove = RemoveRequest { workspace: id, force: true };
        if let Err(failure) = engine.workspaces.remove(&remove).await {
            return tracing::warn!(%failure, "a workspace that nobody waited for could not be removed");
        }
        engine.forget(id).await;
        engine.events.tell(EventKind::Destroyed, id, &outcome.name, None);
    }

    fn made(outcome: &WorkspaceCreated) -> Option<WorkspaceId> {
        outcome.workspace_id.parse().ok()
    }

    fn changed(outcome: &WorkspaceCreated) -> Option<String> {
        Some(format!("created {}", outcome.name))
    }
}

/// A workspace's times and labels as they are asked for.
struct Wishes {
    expires_at: Option<Timestamp>,
    idle_stop: Option<Duration>,
    labels: std::collections::BTreeMap<String, String>,
}

/// How long a new workspace exists.
pub(crate) enum Lifetime<'a> {
    /// Until it is destroyed.
    UntilDestroyed,
    /// For one command. If the future completes before the workspace is created, the caller is gone and the creation is
    /// undone.
    OneCommand(Pin<&'a mut (dyn Future<Output = ()> + Send)>),
}

pub(crate) trait Make {
    fn make(
        self,
        context: &Context,
        lifetime: Lifetime<'_>,
    ) -> impl Future<Output = Result<WorkspaceCreated, Failure>> + Send;
}

impl Make for WorkspaceCreate {
    async fn make(self, context: &Context, lifetime: Lifetime<'_>) -> Result<WorkspaceCreated, Failure> {
        let engine = &context.engine;
        refuse_internet(self.allow_internet)?;
        let config = engine.config();
        let defaults = config.defaults.resources();
        let resources = Resources {
            vcpus: self.vcpus.unwrap_or(defaults.vcpus),
            memory_mb: self.memory_mb.unwrap_or(defaults.memory_mb),
            disk_gb: self.disk_gb.unwrap_or(defaults.disk_gb),
        };
        resources.check(&config.limits)?;
        check_labels(&self.labels)?;
        let image: ImageName = match &self.base_image {
            Some(name) => name.parse()?,
            None => config.defaults.image_name()?,
        };
        let name = self.name.as_deref().map(str::parse).transpose()?;
        let wishes = Wishes {
            expires_at: self.ttl_secs.map(in_so_long).transpose()?,
            idle_stop: self.idle_stop_secs.map(checked_secs).transpose()?,
            labels: self.labels.clone(),
        };
        let _room = engine.quota.reserve(engine, context.caller.session, Asked::of(&resources))?;
        let owner = context.caller.session;
        let (cold, pool) = (self.cold, !self.no_pool);
        let one_shot = matches!(lifetime, Lifetime::OneCommand(_));
        let request = CreateRequest { name, image, resources, cold, pool, owner, one_shot };
        let began = Instant::now();
        let creating = engine.workspaces.create(&request, &context.progress);
        let created = match lifetime {
            Lifetime::UntilDestroyed => creating.await,
            Lifetime::OneCommand(abandoned) => tokio::select! {
                created = creating => created,
                () = abandoned => Err(Failure::new(Code::Cancelled, "the caller is gone")),
            },
        };
        let view = match created {
            Err(failure) if failure.code() == Code::WorkspaceExists => {
                return Err(context.about_taken(request.name.as_ref(), failure));
            }
            made => made?,
        };
        if let Err(failure) = engine.settle(context.caller.session, &view, wishes) {
            // Nobody owns it and nobody knows of it: it must not stay.
            let remove = RemoveRequest { workspace: view.id, force: true };
            engine.workspaces.remove(&remove).await?;
            return Err(failure);
        }
        engine.watch(view.id);
        engine.events.tell(EventKind::Created, view.id, view.name.as_str(), None);
        let expires_at = self.ttl_secs.map(in_so_long).transpose()?.map(clock::on_the_wall).map(shown);
        Ok(WorkspaceCreated {
            workspace_id: view.id.to_string(),
            name: view.name.to_string(),
            state: view.state,
            ip: None,
            boot_time_ms: took_ms(began),
            from_pool: view.from_pool,
            tier: if view.from_pool { Tier::Pool } else { tier(&view.tier) },
            accel: view.accel,
            base_image: view.image.to_string(),
            resources: size(&view.resources),
            expires_at,
        })
    }
}

impl Engine {
    fn settle(&self, owner: Option<SessionId>, view: &WorkspaceView, wishes: Wishes) -> Result<(), Failure> {
        let Wishes { expires_at, idle_stop, labels } = wishes;
        let last_used = clock::now();
        let settings = |owner| Settings {
            owner,
            labels: labels.clone(),
            expires_at,
            idle_stop,
            last_used,
            suspended: None,
            restart: false,
            stay_stopped: false,
            next_size: None,
        };
        Ok(self.meta().write(|tx| {
            // What the user makes has no owner, and a session may have taken it already.
            let owner = owner.or(tx.settings(view.id)?.owner);
            tx.set_settings(view.id, &settings(owner))
        })?)
    }
}

impl Context {
    /// What a caller should know of a name that is taken, if the workspace is its own or nobody's.
    fn about_taken(&self, name: Option<&WorkspaceName>, failure: Failure) -> Failure {
        let known = || {
            let workspaces = self.engine.workspaces.list().ok()?;
            let workspace = workspaces.into_iter().find(|workspace| Some(&workspace.name) == name)?;
            let settings = self.engine.meta().read(|read| read.settings(workspace.id)).ok()?;
            let state = if settings.suspended.is_some() { State::Suspended } else { workspace.state };
            let is_nobodys = settings.owner.is_none() && !self.engine.isolates(&self.caller);
            let is_ours = is_nobodys || settings.owner == self.caller.session;
            is_ours.then(|| (workspace, state, settings.owner.is_some()))
        };
        let Some((workspace, state, owned)) = known() else { return failure };
        let whose = if owned { "you have" } else { "there is" };
        let message = format!(
            "{whose} a workspace {} already: its id is {}, it is {state}",
            workspace.name, workspace.id
        );
        let start = match (state, self.engine.config().vm.start_on_use) {
            (State::Running, _) => "",
            (_, true) => ", it starts when it is used",
            (_, false) => "; start it with workspace_start",
        };
        Failure::new(Code::WorkspaceExists, message).with_remedy(format!(
            "go on with it: every call takes its name or its id{start}; to begin anew, call workspace_destroy first, or \
             create one of another name"
        ))
    }

    /// Refuses an outcome that is repeated when the workspace it speaks of is gone.
    fn require_there(&self, outcome: &Value) -> Result<(), Failure> {
        let Some(id) = outcome["workspace_id"].as_str() else { return Ok(()) };
        let workspaces = self.engine.workspaces.list()?;
        if workspaces.iter().any(|workspace| workspace.id.to_string() == id) {
            return Ok(());
        }
        let name = outcome["name"].as_str().unwrap_or_default();
        let message = format!("the workspace {name:?} ({id}) that this idempotency_key made is gone");
        Err(Failure::new(Code::WorkspaceNotFound, message).with_remedy("use a new key to create another"))
    }

    /// Does something once for a key: the second time the first outcome is the answer.
    pub(crate) async fn once<R: Serialize, O: Serialize + DeserializeOwned>(
        &self,
        key: Option<&str>,
        request: &R,
        work: impl Future<Output = Result<O, Failure>> + Send,
    ) -> Result<O, Failure> {
        let (Some(key), Some(session)) = (key, self.caller.session) else { return work.await };
        if key.is_empty() {
            return Err(Failure::new(Code::InvalidArgument, "idempotency_key is empty")
                .with_remedy("leave it out, or give a word of your own"));
        }
        let internal = |error: serde_json::Error| Failure::new(Code::Internal, error.to_string());
        let hash = *blake3::hash(&serde_json::to_vec(request).map_err(internal)?).as_bytes();
        let meta = self.engine.meta();
        match meta.write(|tx| tx.claim_key(session, key, &hash))? {
            Claim::New => {}
            Claim::Done(outcome) => {
                self.require_there(&outcome)?;
                return serde_json::from_value(outcome).map_err(internal);
            }
            Claim::InProgress => {
                return Err(Failure::new(
                    Code::IdempotencyConflict,
                    "a request with this idempotency_key is still at work",
                )
                .with_remedy("wait for its answer, or try again in a moment"));
            }
            Claim::Mismatch => {
                return Err(Failure::new(
                    Code::IdempotencyConflict,
                    "this idempotency_key was used for another request",
                )
                .with_remedy("use a new key for a new request"));
            }
        }
        let result = work.await;
        let settled = match &result {
            Ok(outcome) => {
                let value = serde_json::to_value(outcome).map_err(internal)?;
                meta.write(|tx| tx.settle_key(session, key, &value))
            }
            Err(_) => meta.write(|tx| tx.drop_key(session, key)),
        };
        settled?;
        result
    }
}

impl Perform for WorkspaceDestroy {
    const ACCESS: Access = Access::Changes;
    const ENDS_MACHINE: Option<&'static str> = Some("was destroyed");

    fn kills(&self) -> bool {
        true
    }

    async fn perform(self, context: &Context) -> Result<WorkspaceDestroyed, Failure> {
        let workspace = context.workspace()?;
        let engine = &context.engine;
        let remove = RemoveRequest { workspace: workspace.id, force: true };
        let owner = engine.meta().read(|read| read.settings(workspace.id))?.owner;
        // One that nobody owned may have been adopted while others were at work on it.
        if !context.caller.is_operator() && owner.is_some() && owner != context.caller.session {
            return Err(not_owner(workspace));
        }
        engine.workspaces.remove(&remove).await?;
        engine.forget(workspace.id).await;
        let name = workspace.name.as_str();
        engine.events.tell_for(owner, EventKind::Destroyed, workspace.id, name, None);
        Ok(WorkspaceDestroyed {
            workspace_id: workspace.id.to_string(),
            name: workspace.name.to_string(),
            destroyed: true,
        })
    }

    fn changed(_: &WorkspaceDestroyed) -> Option<String> {
        Some("destroyed".to_owned())
    }
}

/// Nothing pretends that there is a network.
pub(super) fn refuse_internet(asked: Option<bool>) -> Result<(), Failure> {
    if asked != Some(true) {
        return Ok(());
    }
    Err(Failure::new(Code::NetworkUnavailable, "workspaces have no network, so internet cannot be allowed")
        .with_remedy(
            "leave allow_internet out; bring files in with file_transfer, reach ports with port_forward",
        ))
}

/// The moment in so many seconds, on the clock that decides when a workspace's time is up.
pub(super) fn in_so_long(seconds: u64) -> Result<Timestamp, Failure> {
    Ok(clock::now() + checked_secs(seconds)?)
}

/// A time that makes sense.
pub(super) fn checked_secs(seconds: u64) -> Result<Duration, Failure> {
    if (1..=LONGEST_SECS).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    Err(Failure::new(
        Code::InvalidArgument,
        format!("a time must be between 1 and {LONGEST_SECS} seconds, not {seconds}"),
    ))
}
