//! MCP over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentiso_core::{Code, Failure, SessionId};
use agentiso_engine::{Caller, Engine};
use axum::extract::{Request, State as Extracted};
use axum::response::Response;

use super::answer::Failed;
use super::auth::Asking;
use super::router::State;
use crate::dispatch::Direct;
use crate::mcp::{Allowed, Endpoint, Server, ToolSet};

/// What calls over MCP come in by.
#[derive(Clone)]
pub struct McpDoor {
    allowed: Allowed,
    tools: ToolSet,
    /// None when it is closed.
    desks: Arc<Mutex<Option<HashMap<SessionId, Desk>>>>,
}

/// Where one caller is served. The protocol's own sessions and tasks are kept here: whoever learns their names from
/// somebody else can do nothing with them.
#[derive(Clone)]
struct Desk {
    endpoint: Endpoint,
    server: Server<Direct>,
}

impl McpDoor {
    /// Opens it; `names` are names of this host besides those of the loopback.
    pub fn new(names: &[String], tools: ToolSet) -> Self {
        let origins =
            names.iter().flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}:*")));
        let allowed = Allowed { hosts: names.to_vec(), origins: origins.collect() };
        Self { allowed, tools, desks: Arc::new(Mutex::new(Some(HashMap::new()))) }
    }

    /// Ends every open stream and every task.
    pub fn close(&self) {
        for desk in self.desks().take().into_iter().flatten().map(|(_, desk)| desk) {
            desk.close();
        }
    }

    /// The desk of a session.
    fn desk(&self, session: SessionId, backend: &Direct) -> Result<Desk, Failure> {
        let mut desks = self.desks();
        let Some(desks) = desks.as_mut() else {
            return Err(Failure::new(Code::DaemonUnavailable, "the daemon is ending"));
        };
        if !desks.contains_key(&session) {
            desks.retain(|known, desk| {
                let stays = backend.engine.has_session(*known);
                if !stays {
                    desk.close();
                }
                stays
            });
        }
        let new = || Desk {
            endpoint: Endpoint::new(self.allowed.clone()),
            server: Server::new(backend.clone(), self.tools),
        };
        Ok(desks.entry(session).or_insert_with(new).clone())
    }

    fn desks(&self) -> MutexGuard<'_, Option<HashMap<SessionId, Desk>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn close(&self) {
        self.endpoint.close();
        self.server.end_tasks();
    }
}

pub(super) async fn mcp(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    request: Request,
) -> Result<Response, Failed> {
    let (session, caller) = agent(&state.engine, caller)?;
    let backend = Direct { engine: Arc::clone(&state.engine), caller };
    let desk = state.mcp.desk(session, &backend)?;
    let server = desk.server.with_backend(backend);
    Ok(desk.endpoint.answer(server, &state.bodies, request).await)
}

/// Whoever comes with the user's own token is still an agent, with a session like any other.
fn agent(engine: &Engine, caller: Caller) -> Result<(SessionId, Caller), Failure> {
    match caller.session {
        Some(session) => Ok((session, caller)),
        None => engine.agent_of_the_user(),
    }
}
