//! The routes of the HTTP interface.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentiso_core::action::{Method, Route};
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::wire::{ErrorBody, body_limit};
use agentiso_core::{Code, Failure};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, State as Extracted};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, any, delete, get, on, post};
use axum::{Json, Router, middleware};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};

use super::answer::Failed;
use super::auth::{Asking, Door, admit, dismiss};
use super::mcp::{McpDoor, mcp};
use super::openapi::openapi;
use super::rejections::in_our_words;
use super::routes::routes;
use super::{events, exec, metrics, progress, session, words};
use crate::bodies::{Bodies, Part};
use crate::catalogue::{self, Entry};
use crate::{Backend, Call, ForCaller, SharedBackend};

/// The largest request to a route that is not an action.
const LARGEST: usize = 64 << 10;

/// What all handlers share.
#[derive(Clone)]
pub struct State {
    /// Performs what is requested.
    pub backend: Arc<dyn SharedBackend>,
    /// Where these requests come from.
    pub door: Door,
    /// The MCP endpoint.
    pub mcp: McpDoor,
    /// Asks the daemon to end; true to stop the machines too.
    pub shutdown: mpsc::Sender<bool>,
    /// The budget that all request bodies share.
    pub bodies: Bodies,
    /// Becomes true when the daemon ends: streams without an end are closed then.
    pub ending: watch::Receiver<bool>,
}

/// All routes.
pub fn router(state: State) -> Router {
    let mut router = Router::new();
    for (entry, route) in routes() {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let handler = move |Extracted(state): Extracted<State>,
                            caller: Asking,
                            headers: HeaderMap,
                            path: PathWords,
                            query: QueryWords,
                            body: Body| {
            by_route(entry, route, state, Asked { caller, headers, path, query, body })
        };
        router = router.route(route.path, on(filter, handler));
    }
    router
        .route("/v1/actions/{name}", post(by_name))
        .route("/v1/sessions", post(session::begin))
        .route("/v1/sessions/current", delete(session::end))
        .route("/v1/sessions/current/presence", get(session::stay))
        .route("/v1/events", get(events::watch))
        .route("/v1/workspaces/{workspace_id}/jobs/{job_id}/stream", get(events::job_output))
        .route("/v1/workspaces/{workspace_id}/exec/stream", get(exec::exec))
        .route("/v1/run/stream", get(exec::run))
        .route("/v1/shutdown", post(shut_down))
        .route("/v1/openapi.json", get(|| async { Json(openapi()) }))
        .route("/metrics", get(metrics::metrics))
        .layer(middleware::map_response(in_our_words))
        .route("/mcp", any(mcp))
        .layer(middleware::from_fn_with_state(state.clone(), admit))
        .route("/healthz", get(metrics::health))
        .layer(DefaultBodyLimit::max(LARGEST))
        .fallback(|| async {
            let failure = Failure::new(Code::InvalidArgument, "there is no such route")
                .with_remedy("GET /v1/openapi.json lists all");
            (StatusCode::NOT_FOUND, Json(ErrorBody::from(&failure)))
        })
        .layer(middleware::from_fn_with_state(state.clone(), dismiss))
        .with_state(state)
}

type PathWords = Path<BTreeMap<String, String>>;
type QueryWords = Query<BTreeMap<String, String>>;

/// An action by its route.
async fn by_route(entry: &'static Entry, route: &'static Route, state: State, request: Asked) -> Response {
    let Asked { caller: Asking(caller), headers, path: Path(path), query: Query(query), body } = request;
    let body = if route.method.has_body() { body } else { Body::empty() };
    match arguments(entry, &state.bodies, &headers, body, path.into_iter().chain(query)).await {
        Ok((arguments, part)) => {
            answer(ForCaller { backend: state.backend, caller }, entry, arguments, part, &headers).await
        }
        Err(failure) => Failed(failure).into_response(),
    }
}

/// The parts of a request.
struct Asked {
    caller: Asking,
    headers: HeaderMap,
    path: PathWords,
    query: QueryWords,
    body: Body,
}

impl State {
    /// Waits until the daemon ends.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ending = self.ending.clone();
        async move {
            // If the sender is gone, the daemon has ended.
            let _ = ending.wait_for(|ending| *ending).await;
        }
    }
}

/// An action by its name, which is how our own clients call it.
async fn by_name(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    headers: HeaderMap,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let Some(entry) = catalogue::find(&name) else {
        let near = agentiso_core::nearest(&name, catalogue::ALL.iter().map(|entry| entry.about.name));
        let failure = Failure::new(Code::InvalidArgument, "there is no such action");
        return Failed(match near {
            Some(near) => failure.with_remedy(format!("did you mean {near}?")),
            None => failure,
        })
        .into_response();
    };
    match arguments(entry, &state.bodies, &headers, body, []).await {
        Ok((arguments, part)) => {
            answer(ForCaller { backend: state.backend, caller }, entry, arguments, part, &headers).await
        }
        Err(failure) => Failed(failure).into_response(),
    }
}

async fn answer(
    backend: ForCaller,
    entry: &'static Entry,
    arguments: Map<String, Value>,
    part: Part,
    headers: &HeaderMap,
) -> Response {
    let action = entry.about.name;
    let wants_events = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    if wants_events {
        return progress::events(backend, action, arguments, part).into_response();
    }
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let answered = backend.call(Call { action, arguments, progress }).await;
    drop(part);
    match answered {
        Ok(answer) => Json(answer.structured).into_response(),
        Err(failure) => Failed(failure).into_response(),
    }
}

/// The parameters of an action: from its path, its query and its body.
async fn arguments(
    entry: &Entry,
    bodies: &Bodies,
    headers: &HeaderMap,
    body: Body,
    words: impl IntoIterator<Item = (String, String)>,
) -> Result<(Map<String, Value>, Part), Failure> {
    let held = bodies.read(headers, body, body_limit(entry.about.name)).await?;
    let mut arguments = match held.bytes.is_empty() {
        true => Map::new(),
        false => match held.parse().await {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(Failure::new(Code::InvalidArgument, "the body is not a JSON object")),
            Err(error) => {
                return Err(Failure::new(Code::InvalidArgument, format!("the body is not JSON: {error}")));
            }
        },
    };
    words::add(entry, &mut arguments, words)?;
    Ok((arguments, bodies.while_working(held.part)))
}

/// Ends the daemon. Only the user may.
async fn shut_down(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Query(query): QueryWords,
) -> Result<Json<Value>, Failed> {
    if !caller.is_operator() {
        return Err(Failed(Failure::new(Code::PermissionDenied, "only the user can end the daemon")));
    }
    let stop_machines = query.get("stop_machines").is_some_and(|word| word == "true");
    // It may be ending already.
    let _ = state.shutdown.try_send(stop_machines);
    Ok(Json(json!({ "ending": true, "stop_machines": stop_machines })))
}
