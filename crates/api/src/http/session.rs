//! Starting and ending sessions.

use std::convert::Infallible;

use agentiso_core::ports::records::SessionKind;
use agentiso_core::wire::{SessionRequest, SessionStarted};
use agentiso_core::{Code, Failure, in_clear};
use axum::Json;
use axum::extract::State as Extracted;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;

use super::answer::Failed;
use super::auth::Asking;
use super::progress::event;
use super::router::State;

/// Starts a session. Only the user can: an agent has one already.
pub(super) async fn begin(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Json(request): Json<SessionRequest>,
) -> Result<Json<serde_json::Value>, Failed> {
    if !caller.is_operator() {
        return Err(Failed(Failure::new(Code::PermissionDenied, "a session cannot start another session")));
    }
    let kind = if request.mcp { SessionKind::Mcp } else { SessionKind::Http };
    let begun = state.backend.begin_session(kind, &request.client).await?;
    let started = SessionStarted { session_id: begun.id.to_string(), token: begun.token.into() };
    let body = in_clear(|| serde_json::to_value(started));
    Ok(Json(body.map_err(|error| Failure::new(Code::Internal, error.to_string()))?))
}

/// Keeps the session alive while the client listens. Some time after the client is gone, the session ends.
pub(super) async fn stay(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failed> {
    let Some(session) = caller.session else {
        return Err(Failed(Failure::new(Code::InvalidArgument, "the user has no session")));
    };
    let present = state.backend.attend(session);
    let stream = async_stream::stream! {
        yield Ok(event("present", &serde_json::json!({})));
        state.end().await;
        // The daemon ends, not the client: the session must exist when the next daemon starts.
        present.keep();
    };
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// Ends the caller's session.
pub(super) async fn end(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Result<Json<serde_json::Value>, Failed> {
    if let Some(session) = caller.session {
        state.backend.end_session(session).await?;
    }
    Ok(Json(serde_json::json!({ "ended": caller.session.is_some() })))
}
