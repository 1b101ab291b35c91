//! MCP over HTTP.

use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_engine::{Caller, Engine};
use agentiso_meta::SessionKind;
use axum::body::Body;
use axum::extract::{Request, State as Extracted};
use axum::response::{IntoResponse, Response};
use tokio::sync::OnceCell;

use super::answer::Failed;
use super::auth::Asking;
use super::router::State;
use crate::dispatch::Direct;
use crate::mcp::{Allowed, Endpoint, Server, ToolSet};

/// What calls over MCP come in by.
#[derive(Clone)]
pub struct McpDoor {
    endpoint: Endpoint,
    server: Server<Direct>,
    /// Whoever comes with the user's own token is still an agent, with a session like any other.
    agent: Arc<OnceCell<Caller>>,
}

impl McpDoor {
    /// Opens it; `names` are names of this host besides those of the loopback.
    pub fn new(engine: &Arc<Engine>, names: &[String], tools: ToolSet) -> Self {
        let origins =
            names.iter().flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}:*")));
        let allowed = Allowed { hosts: names.to_vec(), origins: origins.collect() };
        let nobody = Direct { engine: Arc::clone(engine), caller: Caller::operator("mcp") };
        Self { endpoint: Endpoint::new(allowed), server: Server::new(nobody, tools), agent: Arc::default() }
    }

    /// Ends every open stream.
    pub fn close(&self) {
        self.endpoint.close();
        self.server.end_tasks();
    }

    async fn agent(&self, engine: &Engine) -> Result<Caller, Failure> {
        let begin = || async {
            let begun = engine.begin_session(SessionKind::Mcp, "mcp over http")?;
            Ok::<_, Failure>(Caller { session: Some(begun.id), client: "mcp over http".to_owned() })
        };
        self.agent.get_or_try_init(begin).await.cloned()
    }
}

pub(super) async fn mcp(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    request: Request,
) -> Result<Response, Failed> {
    let caller = match caller.is_operator() {
        true => state.mcp.agent(&state.engine).await?,
        false => caller,
    };
    let backend = Direct { engine: Arc::clone(&state.engine), caller };
    let service = state.mcp.endpoint.service(state.mcp.server.with_backend(backend));
    Ok(service.handle(request).await.map(Body::new).into_response())
}
