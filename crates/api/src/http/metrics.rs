//! How the daemon is, for machines that watch machines.

use std::sync::Arc;

use agentiso_engine::Engine;
use axum::extract::State as Extracted;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::answer::Failed;
use super::router::State;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics and health alone, for a port of their own.
pub fn metrics_router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/metrics", get(|Extracted(engine): Extracted<Arc<Engine>>| async move { text(&engine) }))
        .route("/healthz", get(|Extracted(engine): Extracted<Arc<Engine>>| async move { healthy(&engine) }))
        .with_state(engine)
}

pub(super) async fn metrics(Extracted(state): Extracted<State>) -> Result<impl IntoResponse, Failed> {
    text(&state.engine)
}

pub(super) async fn health(Extracted(state): Extracted<State>) -> Result<Json<Value>, Failed> {
    healthy(&state.engine)
}

fn text(engine: &Engine) -> Result<impl IntoResponse + use<>, Failed> {
    let text = engine.metrics.text(&engine.states()?, engine.uptime());
    Ok(([(CONTENT_TYPE, PROMETHEUS)], text))
}

fn healthy(engine: &Engine) -> Result<Json<Value>, Failed> {
    let (workspaces, uptime) = (engine.states()?, engine.uptime().as_secs());
    Ok(Json(json!({ "status": "ok", "workspaces": workspaces, "uptime_seconds": uptime })))
}
