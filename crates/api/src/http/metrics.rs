//! Metrics and health, for monitoring.

use std::sync::Arc;

use agentiso_core::{Code, Failure};
use axum::extract::{Request, State as Extracted};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde_json::Value;

use super::answer::Failed;
use super::auth::{Asking, Door, closing, require_own_name};
use super::router::State;
use crate::SharedBackend;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics and health alone, for a port of their own. Nobody shows a token there, so connections are not kept open.
pub fn metrics_router(backend: Arc<dyn SharedBackend>) -> Router {
    type Backend = Extracted<Arc<dyn SharedBackend>>;
    Router::new()
        .route("/metrics", get(|Extracted(backend): Backend| async move { text(&*backend).await }))
        .route("/healthz", get(|Extracted(backend): Backend| async move { healthy(&*backend).await }))
        .layer(middleware::from_fn(|request: Request, next: Next| async move {
            closing(match require_own_name(request.headers(), &[]) {
                Ok(()) => next.run(request).await,
                Err(failure) => Failed(failure).into_response(),
            })
        }))
        .with_state(backend)
}

pub(super) async fn metrics(
    Extracted(state): Extracted<State>,
    Asking(caller): Asking,
) -> Result<impl IntoResponse, Failed> {
    if state.backend.isolates(&caller) {
        return Err(Failed(
            Failure::new(
                Code::PermissionDenied,
                "metrics cover all sessions, and sessions are isolated from each other",
            )
            .with_remedy("ask with the user's token"),
        ));
    }
    text(&*state.backend).await
}

pub(super) async fn health(
    Extracted(state): Extracted<State>,
    headers: HeaderMap,
) -> Result<Json<Value>, Failed> {
    if let Door::Network { names, .. } = &state.door {
        require_own_name(&headers, names)?;
    }
    healthy(&*state.backend).await
}

async fn text(backend: &dyn SharedBackend) -> Result<impl IntoResponse + use<>, Failed> {
    Ok(([(CONTENT_TYPE, PROMETHEUS)], backend.metrics().await?))
}

async fn healthy(backend: &dyn SharedBackend) -> Result<Json<Value>, Failed> {
    Ok(Json(backend.health().await?))
}
