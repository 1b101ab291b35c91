//! How the daemon is, for machines that watch machines.

use std::sync::Arc;

use agentiso_core::{Code, Failure};
use agentiso_engine::Engine;
use axum::extract::{Request, State as Extracted};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use super::answer::Failed;
use super::auth::{Asking, Door, closing, require_own_name};
use super::router::State;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics and health alone, for a port of their own. Nobody shows a token there, so nobody keeps a connection.
pub fn metrics_router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route(
            "/metrics",
            get(|Extracted(engine): Extracted<Arc<Engine>>| async move { text(&engine).await }),
        )
        .route(
            "/healthz",
            get(|Extracted(engine): Extracted<Arc<Engine>>| async move { healthy(&engine).await }),
        )
        .layer(middleware::from_fn(|request: Request, next: Next| async move {
            closing(match require_own_name(request.headers(), &[]) {
                Ok(()) => next.run(request).await,
                Err(failure) => Failed(failure).into_response(),
            })
        }))
        .with_state(engine)
}

pub(super) async fn metrics(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Result<impl IntoResponse, Failed> {
    if state.engine.isolates(&caller) {
        return Err(Failed(
            Failure::new(Code::PermissionDenied, "metrics tell of all sessions")
                .with_remedy("ask with the user's token"),
        ));
    }
    text(&state.engine).await
}

pub(super) async fn health(
    Extracted(state): Extracted<State>,
    headers: HeaderMap,
) -> Result<Json<Value>, Failed> {
    if let Door::Network { names, .. } = &state.door {
        require_own_name(&headers, names)?;
    }
    healthy(&state.engine).await
}

async fn text(engine: &Engine) -> Result<impl IntoResponse + use<>, Failed> {
    let text = engine.metrics.text(&engine.states().await?, engine.uptime());
    Ok(([(CONTENT_TYPE, PROMETHEUS)], text))
}

async fn healthy(engine: &Engine) -> Result<Json<Value>, Failed> {
    let (workspaces, uptime) = (engine.states().await?, engine.uptime().as_secs());
    Ok(Json(json!({ "status": "ok", "workspaces": workspaces, "uptime_seconds": uptime })))
}
