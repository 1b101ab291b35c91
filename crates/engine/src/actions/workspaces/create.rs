//! Creating and destroying workspaces.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::action::forms::MAX_LIFETIME_SECS;
use agentiso_core::action::{
    Action, State, Tier, WorkspaceCreate, WorkspaceCreated, WorkspaceDestroy, WorkspaceDestroyed,
};
use agentiso_core::admission::Amounts;
use agentiso_core::ports::host::{CreateRequest, RemoveRequest, WorkspaceView};
use agentiso_core::ports::records::Settings;
use agentiso_core::{
    Code, Failure, ImageName, Resources, SessionId, WorkspaceId, WorkspaceName, check_labels,
};
use jiff::Timestamp;
use serde_json::json;

use crate::act::Context;
use crate::admission::not_owner;
use crate::events::EventKind;
use crate::record::Record;
use crate::upkeep::DAEMON;
use crate::views::{shown, size, tier, took_ms};
use crate::{Access, Caller, Engine, Perform};

impl Perform for WorkspaceCreate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceCreated, Failure> {
        let key = self.idempotency_key.clone();
        context.once(key.as_ref(), &self, self.clone().make(context, Lifetime::UntilDestroyed)).await
    }

    fn is_undone_when_abandoned(&self) -> bool {
        // With a key the caller can repeat the call.
        self.idempotency_key.is_none()
    }

    async fn undo(outcome: WorkspaceCreated, context: &Context) {
        let Some(id) = Self::made(&outcome) else { return };
        if let Err(failure) = context.engine.remove_abandoned(id).await {
            tracing::warn!(%failure, "could not remove a workspace whose client disconnected");
        }
    }

    fn made(outcome: &WorkspaceCreated) -> Option<WorkspaceId> {
        outcome.workspace_id.parse().ok()
    }

    fn changed(outcome: &WorkspaceCreated) -> Option<String> {
        Some(format!("created {}", outcome.name))
    }
}

/// The lifetime and labels that a new workspace gets.
struct InitialSettings {
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
        let defaults = engine.settings.default_resources;
        let resources = Resources {
            vcpus: self.vcpus.unwrap_or(defaults.vcpus),
            memory_mb: self.memory_mb.unwrap_or(defaults.memory_mb),
            disk_gb: self.disk_gb.unwrap_or(defaults.disk_gb),
        };
        resources.check(&engine.settings.limits)?;
        check_labels(&self.labels)?;
        let image: ImageName = match &self.base_image {
            Some(name) => name.parse()?,
            None => engine.settings.default_image.parse()?,
        };
        let name = self.name.as_deref().map(str::parse).transpose()?;
        let mut network = self.network.clone().unwrap_or_default();
        network.allow_internet = self.allow_internet.or(network.allow_internet);
        let ttl = self.ttl_secs.map(checked_secs).transpose()?;
        let initial = InitialSettings {
            expires_at: ttl.map(|ttl| engine.clock.now() + ttl),
            idle_stop: self.idle_stop_secs.map(checked_secs).transpose()?,
            labels: self.labels.clone(),
        };
        let _reserved = engine.quota.reserve(engine, context.caller.session, Amounts::of(&resources)).await?;
        let owner = context.caller.session;
        let (cold, pool) = (self.cold, !self.no_pool);
        let one_shot = matches!(lifetime, Lifetime::OneCommand(_));
        let new = engine.rules_after(&context.caller, &engine.default_rules(), &network, None).await?;
        let network = new.rules.clone();
        let request = CreateRequest { name, image, resources, cold, pool, owner, one_shot, network };
        let began = Instant::now();
        let creating = engine.host.create(&request, &context.progress);
        let created = match lifetime {
            Lifetime::UntilDestroyed => creating.await,
            Lifetime::OneCommand(abandoned) => tokio::select! {
                created = creating => created,
                () = abandoned => Err(Failure::new(Code::Cancelled, "the caller is gone")),
            },
        };
        let view = match created {
            Err(failure) if failure.code() == Code::WorkspaceExists => {
                return Err(context.about_taken(request.name.as_ref(), failure).await);
            }
            made => made?,
        };
        let expires_at = initial.expires_at.map(|at| shown(engine.clock.on_the_wall(at)));
        let settled = match engine.settle(context.caller.session, &view, initial).await {
            Ok(_) => engine.add_packages_of(view.id, new).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = settled {
            // Its caller does not learn of it, so it must not stay.
            let remove = RemoveRequest { workspace: view.id, force: true };
            engine.host.remove(&remove).await?;
            return Err(failure);
        }
        engine.watch(view.id).await;
        engine.events.tell(EventKind::Created, view.id, view.name.as_str(), None).await;
        Ok(WorkspaceCreated {
            workspace_id: view.id.to_string(),
            name: view.name.to_string(),
            state: view.state,
            ip: view.network.address.map(|address| address.to_string()),
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
    /// Removes a workspace whose client disconnected before it was created, with a timeline entry of its own.
    async fn remove_abandoned(self: &Arc<Self>, id: WorkspaceId) -> Result<(), Failure> {
        let workspace = self.records.workspace(id).await?;
        let audience = self.events.audience_of(id).await;
        let detail = json!({ "reason": "its client disconnected before it was created" });
        let mut record = Record::begin(self, &Caller::operator(DAEMON), WorkspaceDestroy::ABOUT.name, detail);
        record.about(&workspace);
        record.store_unless_full().await?;
        let removed = self.host.remove(&RemoveRequest { workspace: id, force: true }).await;
        let end = removed.as_ref().map(|()| Some("destroyed".to_owned())).map_err(Failure::code);
        record.end(end).await?;
        removed?;
        self.forget(id).await;
        self.events.tell_to(audience, EventKind::Destroyed, id, workspace.name.as_str(), None);
        Ok(())
    }

    async fn settle(
        &self,
        owner: Option<SessionId>,
        view: &WorkspaceView,
        initial: InitialSettings,
    ) -> Result<(), Failure> {
        let InitialSettings { expires_at, idle_stop, labels } = initial;
        let last_used = self.clock.now();
        let change = move |settings: &mut Settings| {
            *settings = Settings {
                // What the operator creates has no owner, and a session may have adopted it already.
                owner: owner.or(settings.owner),
                labels,
                expires_at,
                idle_stop,
                last_used,
                suspended: None,
                restart: false,
                stay_stopped: false,
                next_size: None,
            };
        };
        self.change_settings(view.id, change).await.map(drop)
    }
}

impl Context {
    /// A failure that describes the workspace that has the name, if the caller may use that one.
    async fn about_taken(&self, name: Option<&WorkspaceName>, failure: Failure) -> Failure {
        let known = async {
            let workspaces = self.engine.host.list().await.ok()?;
            let workspace = workspaces.into_iter().find(|workspace| Some(&workspace.name) == name)?;
            let settings = self.engine.records.settings(workspace.id).await.ok()?;
            let state = if settings.suspended.is_some() { State::Suspended } else { workspace.state };
            let is_nobodys = settings.owner.is_none() && !self.engine.isolates(&self.caller);
            let is_ours = is_nobodys || settings.owner == self.caller.session;
            is_ours.then(|| (workspace, state, settings.owner.is_some()))
        };
        let Some((workspace, state, owned)) = known.await else { return failure };
        let whose = if owned { "you have" } else { "there is" };
        let message = format!(
            "{whose} a workspace {} already: its id is {}, it is {state}",
            workspace.name, workspace.id
        );
        let start = match (state, self.engine.settings.start_on_use) {
            (State::Running, _) => "",
            (_, true) => ", it starts when it is used",
            (_, false) => "; start it with workspace_start",
        };
        Failure::new(Code::WorkspaceExists, message).with_remedy(format!(
            "go on with it: every call takes its name or its id{start}; to begin anew, call workspace_destroy first, or \
             create one of another name"
        ))
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
        let owner = engine.records.settings(workspace.id).await?.owner;
        // A workspace without an owner may have been adopted while this waited for the lock.
        if !context.caller.is_operator() && owner.is_some() && owner != context.caller.session {
            return Err(not_owner(workspace));
        }
        engine.host.remove(&remove).await?;
        engine.forget(workspace.id).await;
        let name = workspace.name.as_str();
        engine.events.tell_to(owner.into(), EventKind::Destroyed, workspace.id, name, None);
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

/// A duration within the limits.
pub(super) fn checked_secs(seconds: u64) -> Result<Duration, Failure> {
    if (1..=MAX_LIFETIME_SECS).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    Err(Failure::new(
        Code::InvalidArgument,
        format!("a time must be between 1 and {MAX_LIFETIME_SECS} seconds, not {seconds}"),
    ))
}
