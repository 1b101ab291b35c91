//! Beginning and ending sessions.

use agentiso_core::{Code, Failure};
use agentiso_meta::SessionKind;
use axum::Json;
use axum::extract::State as Extracted;
use serde::{Deserialize, Serialize};

use super::answer::Failed;
use super::auth::Asking;
use super::router::State;

/// A session that is wished for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionWish {
    /// What the client calls itself.
    pub client: String,
    /// Whether it speaks MCP.
    #[serde(default)]
    pub mcp: bool,
}

/// A session that has begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SessionBegun {
    /// Its id.
    pub session_id: String,
    /// What to send as `Authorization: Bearer` from then on. It is told once.
    pub token: String,
}

/// Begins one. Only the user can: an agent has one already.
pub(super) async fn begin(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
    Json(wish): Json<SessionWish>,
) -> Result<Json<SessionBegun>, Failed> {
    if !caller.is_operator() {
        return Err(Failed(Failure::new(Code::Unauthorized, "a session cannot begin another")));
    }
    let kind = if wish.mcp { SessionKind::Mcp } else { SessionKind::Http };
    let begun = state.engine.begin_session(kind, &wish.client)?;
    Ok(Json(SessionBegun { session_id: begun.id.to_string(), token: begun.token }))
}

/// Ends the caller's own.
pub(super) async fn end(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Result<Json<serde_json::Value>, Failed> {
    if let Some(session) = caller.session {
        state.engine.end_session(session)?;
    }
    Ok(Json(serde_json::json!({ "ended": caller.session.is_some() })))
}
