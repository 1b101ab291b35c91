//! Making and destroying workspaces.

use std::time::{Duration, Instant};

use agentiso_core::action::{WorkspaceCreate, WorkspaceCreated, WorkspaceDestroy, WorkspaceDestroyed};
use agentiso_core::{Code, Failure, ImageName, Resources, SessionId, WorkspaceId, check_labels};
use agentiso_meta::{Claim, Settings};
use agentiso_runtime::workspaces::{CreateRequest, RemoveRequest, WorkspaceView};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::act::Context;
use crate::events::EventKind;
use crate::quota::Asked;
use crate::views::{shown, size, took_ms};
use crate::{Access, Engine, Perform};

/// The longest time a workspace can be given: ten years.
const LONGEST_SECS: u64 = 10 * 365 * 24 * 3600;

impl Perform for WorkspaceCreate {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceCreated, Failure> {
        let key = self.idempotency_key.clone();
        context.once(key.as_deref(), &self, self.clone().make(context)).await
    }

    fn made(outcome: &WorkspaceCreated) -> Option<&str> {
        Some(&outcome.workspace_id)
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

trait Make {
    async fn make(self, context: &Context) -> Result<WorkspaceCreated, Failure>;
}

impl Make for WorkspaceCreate {
    async fn make(self, context: &Context) -> Result<WorkspaceCreated, Failure> {
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
        let request = CreateRequest { name, image, resources, cold: self.cold, pool: !self.no_pool };
        let began = Instant::now();
        let view = engine.workspaces.create(&request, &context.progress).await?;
        if let Err(failure) = engine.settle(context.caller.session, &view, wishes) {
            // Nobody owns it and nobody knows of it: it must not stay.
            let remove = RemoveRequest { workspace: view.id.to_string(), force: true };
            engine.workspaces.remove(&remove).await?;
            return Err(failure);
        }
        engine.watch(view.id);
        engine.events.tell(EventKind::Created, view.id, view.name.as_str(), None);
        let expires_at = self.ttl_secs.map(in_so_long).transpose()?.map(shown);
        Ok(WorkspaceCreated {
            workspace_id: view.id.to_string(),
            name: view.name.to_string(),
            state: view.state.to_owned(),
            ip: None,
            boot_time_ms: took_ms(began),
            from_pool: view.from_pool,
            tier: if view.from_pool { "pool".to_owned() } else { view.tier.clone() },
            accel: view.accel.map(|accel| accel.to_string()),
            base_image: view.image.to_string(),
            resources: size(&view.resources),
            expires_at,
        })
    }
}

impl Engine {
    fn settle(&self, owner: Option<SessionId>, view: &WorkspaceView, wishes: Wishes) -> Result<(), Failure> {
        let Wishes { expires_at, idle_stop, labels } = wishes;
        let last_used = Timestamp::now();
        let settings = Settings { owner, labels, expires_at, idle_stop, last_used, suspended: None };
        Ok(self.meta().write(|tx| tx.set_settings(view.id, &settings))?)
    }

    /// Makes a session the owner of what it has just made.
    pub(crate) fn own(&self, owner: Option<SessionId>, workspace: WorkspaceId) -> Result<(), Failure> {
        match owner {
            Some(_) => Ok(self.meta().write(|tx| tx.set_owner(workspace, owner))?),
            None => Ok(()),
        }
    }
}

impl Context {
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
            Claim::Done(outcome) => return serde_json::from_value(outcome).map_err(internal),
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

    async fn perform(self, context: &Context) -> Result<WorkspaceDestroyed, Failure> {
        let workspace = context.workspace()?;
        let engine = &context.engine;
        let remove = RemoveRequest { workspace: workspace.id.to_string(), force: true };
        engine.workspaces.remove(&remove).await?;
        engine.forget(workspace.id).await;
        engine.events.tell(EventKind::Destroyed, workspace.id, workspace.name.as_str(), None);
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

/// The moment in so many seconds.
pub(super) fn in_so_long(seconds: u64) -> Result<Timestamp, Failure> {
    Ok(Timestamp::now() + checked_secs(seconds)?)
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
