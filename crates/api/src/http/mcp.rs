//! MCP over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentiso_core::{Code, Failure, SessionId};
use agentiso_engine::{Caller, Identity};
use axum::body::Body;
use axum::extract::{Request, State as Extracted};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;

use super::answer::Failed;
use super::auth::Asking;
use super::conversation::{Agent, Conversation};
use super::router::State;
use crate::mcp::{Allowed, Endpoint, Message, Server, ToolSet, session_of};
use crate::{SessionPresence, SharedBackend};

/// The MCP endpoint of the HTTP interface.
#[derive(Clone)]
pub struct McpDoor {
    allowed: Allowed,
    tools: ToolSet,
    /// `None` once it is closed.
    desks: Arc<Mutex<Option<Desks>>>,
    /// The conversations of older clients that have nothing but the user's token, by `Mcp-Session-Id`.
    conversations: Arc<Mutex<HashMap<Arc<str>, Weak<Conversation>>>>,
}

/// Where clients are served: each session has its own desk; older clients that have nothing but the user's token share
/// one endpoint.
struct Desks {
    of_the_user: Endpoint,
    by_session: HashMap<SessionId, Desk>,
}

/// Where one session is served. The protocol's own sessions and tasks are kept per desk, so another session cannot use
/// their names.
#[derive(Clone)]
struct Desk {
    endpoint: Endpoint,
    server: Server<Agent>,
}

impl McpDoor {
    /// Opens it. `names` are host names of this machine besides those of the loopback interface.
    pub fn new(names: &[String], tools: ToolSet) -> Self {
        let origins =
            names.iter().flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}:*")));
        let allowed = Allowed { hosts: names.to_vec(), origins: origins.collect() };
        let desks = Desks { of_the_user: Endpoint::new(allowed.clone()), by_session: HashMap::new() };
        Self { allowed, tools, desks: Arc::new(Mutex::new(Some(desks))), conversations: Arc::default() }
    }

    /// Ends every open stream and every task.
    pub fn close(&self) {
        if let Some(Desks { of_the_user, by_session }) = locked(&self.desks).take() {
            of_the_user.close();
            by_session.values().for_each(Desk::close);
        }
    }

    /// The desk of a session.
    async fn desk(
        &self,
        backend: &Arc<dyn SharedBackend>,
        session: SessionId,
        caller: &Caller,
    ) -> Result<Desk, Failure> {
        let known: Vec<SessionId> = match locked(&self.desks).as_ref().ok_or_else(ending)? {
            desks if desks.by_session.contains_key(&session) => Vec::new(),
            desks => desks.by_session.keys().copied().collect(),
        };
        let mut ended = Vec::new();
        for known in known {
            if !backend.has_session(known).await {
                ended.push(known);
            }
        }
        let mut desks = locked(&self.desks);
        let desks = &mut desks.as_mut().ok_or_else(ending)?.by_session;
        for desk in ended.iter().filter_map(|session| desks.remove(session)) {
            desk.close();
        }
        let new = || Desk {
            endpoint: Endpoint::new(self.allowed.clone()),
            server: Server::new(Agent::known(backend, caller.clone()), self.tools),
        };
        Ok(desks.entry(session).or_insert_with(new).clone())
    }

    /// Where older clients are served that have nothing but the user's token.
    fn users_endpoint(&self) -> Result<Endpoint, Failure> {
        let desks = locked(&self.desks);
        Ok(desks.as_ref().ok_or_else(ending)?.of_the_user.clone())
    }

    /// Remembers a conversation for as long as it lasts.
    fn remember(&self, name: Arc<str>, conversation: &Arc<Conversation>) {
        let mut conversations = locked(&self.conversations);
        conversations.retain(|_, known| known.strong_count() > 0);
        conversations.insert(name, Arc::downgrade(conversation));
    }

    fn conversation(&self, name: &str) -> Option<Arc<Conversation>> {
        locked(&self.conversations).get(name)?.upgrade()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ending() -> Failure {
    Failure::new(Code::DaemonUnavailable, "the daemon is ending")
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
    match caller.session {
        Some(session) => Ok(answer_session(&state, session, caller, request).await?),
        None => Ok(answer_user(&state, &caller, request).await?),
    }
}

/// Answers a client whose session is known.
async fn answer_session(
    state: &State,
    session: SessionId,
    caller: Caller,
    request: Request,
) -> Result<Response, Failure> {
    let desk = state.mcp.desk(&state.backend, session, &caller).await?;
    let server = desk.server.with_backend(Agent::known(&state.backend, caller));
    let listens = request.method() == Method::GET;
    let response = desk.endpoint.answer(server, &state.bodies, request).await;
    Ok(match listens && response.status() == StatusCode::OK {
        true => attended(response, state.backend.attend(session)),
        false => response,
    })
}

/// Answers a client that shows only the user's token. It is still an agent, with a session like any other.
async fn answer_user(state: &State, caller: &Caller, request: Request) -> Result<Response, Failure> {
    let (backend, door) = (&state.backend, &state.mcp);
    let endpoint = door.users_endpoint()?;
    let name = session_of(request.headers());
    let listens = request.method() == Method::GET;
    let conversation = Conversation::new(backend);
    let response = endpoint
        .answer_with(&state.bodies, request, |message: &Message| {
            // A client that has started a conversation is served by the server it started with.
            let speaks = message.begins_conversation() || name.is_some() || !message.needs_session();
            let who = message.client().unwrap_or(&caller.client).to_owned();
            let conversation = Arc::clone(&conversation);
            async move {
                if speaks {
                    return Ok(Server::new(Agent::speaking(conversation), door.tools));
                }
                let caller = backend.client_known_by(Identity::Name(&who), &who).await?;
                let session = caller
                    .session
                    .ok_or_else(|| Failure::new(Code::Internal, "a client without a session"))?;
                let desk = door.desk(backend, session, &caller).await?;
                Ok(desk.server.with_backend(Agent::known(backend, caller)))
            }
        })
        .await;
    match (&name, session_of(response.headers())) {
        (None, Some(begun)) => door.remember(begun, &conversation),
        (Some(name), _) if listens && response.status() == StatusCode::OK => {
            if let Some(conversation) = door.conversation(name) {
                let session = conversation.session(&caller.client).await?;
                return Ok(attended(response, backend.attend(session)));
            }
        }
        _ => {}
    }
    Ok(response)
}

/// A client that listens. Its session stays when it stops: it may reconnect.
struct Listening(Option<Box<dyn SessionPresence>>);

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(present) = self.0.take() {
            present.keep();
        }
    }
}

/// A response whose client counts as connected while it is read.
fn attended(response: Response, present: Box<dyn SessionPresence>) -> Response {
    let listening = Listening(Some(present));
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _ = &listening;
            piece
        }))
    })
}
