//! The daemon as a client sees it.

use std::path::Path;
use std::time::Duration;

use agentiso_core::action::Action;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::wire::{
    ErrorBody, ExecSpec, ProgressWord, RunSpec, SessionRequest, SessionStarted, body_limit, body_too_long,
};
use agentiso_core::{Failure, in_clear};
use futures_util::{Stream, StreamExt};
use hyper::Method;
use serde_json::{Map, Value};

use crate::error::{lost, unintelligible, unwritable};
use crate::events::{self, JobEvent, Watched};
use crate::exec::{self, ExecStream};
use crate::http::{EVENTS, Http, JSON, encoded};
use crate::sse;

/// How long a daemon may take to answer before it counts as slow.
const ALIVE: Duration = Duration::from_secs(5);

/// A client of the daemon. Cloning it is cheap; every request has a connection of its own.
#[derive(Clone)]
pub struct Client {
    http: Http,
}

impl Client {
    /// A client of the daemon at a unix socket, with the name that the timeline shows.
    pub fn new(socket: &Path, name: &str) -> Self {
        Self { http: Http { socket: socket.to_owned(), client: name.to_owned(), token: None } }
    }

    /// The same client in a session.
    #[must_use]
    pub fn with_token(mut self, token: String) -> Self {
        self.http.token = Some(token);
        self
    }

    /// The same client under another name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.http.client);
        self
    }

    /// Whether a daemon answers. Connecting is not enough: the socket of a process that is being killed still accepts
    /// connections. A daemon that is merely slow is alive.
    pub async fn is_alive(&self) -> bool {
        let answer = self.http.exchange(Method::HEAD, "/", Vec::new(), JSON);
        !matches!(tokio::time::timeout(ALIVE, answer).await, Ok(Err(_)))
    }

    /// Performs an action.
    pub async fn act<A: Action>(&self, action: &A) -> Result<A::Outcome, Failure> {
        self.act_with_progress(action, &Silent).await
    }

    /// Performs an action and reports its progress. Dropping the future ends a command in a workspace; other changes
    /// are finished by the daemon.
    pub async fn act_with_progress<A: Action>(
        &self,
        action: &A,
        progress: &dyn Progress,
    ) -> Result<A::Outcome, Failure> {
        let arguments = in_clear(|| serde_json::to_vec(action)).map_err(|error| unwritable(&error))?;
        let outcome = self.post_action(A::ABOUT.name, arguments, progress).await?;
        serde_json::from_value(outcome).map_err(unintelligible)
    }

    /// Performs an action by name, with its parameters and outcome as JSON.
    pub async fn call(
        &self,
        action: &str,
        arguments: &Map<String, Value>,
        progress: &dyn Progress,
    ) -> Result<Value, Failure> {
        let arguments = serde_json::to_vec(arguments).map_err(|error| unwritable(&error))?;
        self.post_action(action, arguments, progress).await
    }

    /// Starts a session.
    pub async fn start_session(&self, mcp: bool) -> Result<SessionStarted, Failure> {
        let request = SessionRequest { client: self.http.client.clone(), mcp };
        let body = serde_json::to_vec(&request).map_err(|error| unwritable(&error))?;
        self.http.ask(Method::POST, "/v1/sessions", body).await
    }

    /// Ends this client's session. Its workspaces are left without an owner.
    pub async fn end_session(&self) -> Result<(), Failure> {
        self.http.ask::<Value>(Method::DELETE, "/v1/sessions/current", Vec::new()).await.map(drop)
    }

    /// Keeps this client's session from being taken for abandoned, until the daemon ends or the future is dropped.
    pub async fn stay_present(&self) -> Result<(), Failure> {
        let answer = self.http.send(Method::GET, "/v1/sessions/current/presence", Vec::new(), EVENTS).await?;
        let mut events = std::pin::pin!(sse::events(answer));
        while let Some(event) = events.next().await {
            event?;
        }
        Ok(())
    }

    /// Ends the daemon; with `stop_machines`, after stopping all machines.
    pub async fn shut_down(&self, stop_machines: bool) -> Result<(), Failure> {
        let path = format!("/v1/shutdown?stop_machines={stop_machines}");
        self.http.ask::<Value>(Method::POST, &path, Vec::new()).await.map(drop)
    }

    /// Watches what happens to workspaces: to all of them, or, in a session, to those the session may see.
    pub async fn watch(&self) -> Result<impl Stream<Item = Result<Watched, Failure>> + use<>, Failure> {
        let answer = self.http.send(Method::GET, "/v1/events", Vec::new(), EVENTS).await?;
        Ok(sse::events(answer).map(|event| events::watched(event?)))
    }

    /// Follows the output of a background command from its beginning to its end.
    pub async fn job_output(
        &self,
        workspace: &str,
        job: u32,
    ) -> Result<impl Stream<Item = Result<JobEvent, Failure>> + use<>, Failure> {
        let path = format!("/v1/workspaces/{}/jobs/{job}/stream", encoded(workspace));
        let answer = self.http.send(Method::GET, &path, Vec::new(), EVENTS).await?;
        Ok(sse::events(answer).map(|event| events::job_event(event?)))
    }

    /// Runs a command whose input and output are streamed. Dropping the stream ends the command.
    pub async fn exec(&self, workspace: &str, spec: &ExecSpec) -> Result<ExecStream, Failure> {
        exec::open(&self.http, &format!("/v1/workspaces/{}/exec/stream", encoded(workspace)), spec).await
    }

    /// Runs a command in a workspace that is created for it and destroyed afterwards. Dropping the stream destroys the
    /// workspace too. Before the command starts, [`ExecWord::Progress`](agentiso_core::wire::ExecWord::Progress) is sent.
    pub async fn run(&self, spec: &RunSpec) -> Result<ExecStream, Failure> {
        exec::open(&self.http, "/v1/run/stream", spec).await
    }

    async fn post_action(
        &self,
        action: &str,
        arguments: Vec<u8>,
        progress: &dyn Progress,
    ) -> Result<Value, Failure> {
        // The daemon would refuse it without reading it, and the connection would break before its response is read.
        let limit = body_limit(action);
        if arguments.len() > limit {
            return Err(body_too_long(limit));
        }
        let path = format!("/v1/actions/{}", encoded(action));
        let answer = self.http.send(Method::POST, &path, arguments, EVENTS).await?;
        let mut events = std::pin::pin!(sse::events(answer));
        while let Some(event) = events.next().await {
            let sse::Event { name, data } = event?;
            match name.as_str() {
                "result" => return Ok(data),
                "error" => {
                    return Err(serde_json::from_value::<ErrorBody>(data).map_err(unintelligible)?.into());
                }
                "progress" => {
                    // Progress of a kind that this version does not know is not worth a failure.
                    if let Ok(word) = serde_json::from_value::<ProgressWord>(data) {
                        word.report(progress);
                    }
                }
                _ => {}
            }
        }
        Err(lost("the daemon ended before it answered"))
    }
}
