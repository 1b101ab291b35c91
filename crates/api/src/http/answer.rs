//! Failures as HTTP responses.

use agentiso_core::wire::ErrorBody;
use agentiso_core::{Code, Failure};
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};

/// A failure that becomes a response.
pub(super) struct Failed(pub Failure);

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = status_of(self.0.code());
        let mut response = (status, Json(ErrorBody::from(&self.0))).into_response();
        if let Some(wait) = self.0.wait() {
            // In whole seconds, rounded up.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The HTTP status of an error code.
pub fn status_of(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
