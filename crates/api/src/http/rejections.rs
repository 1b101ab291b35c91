//! Errors of the HTTP framework, in the form of ours.

use agentiso_core::wire::ErrorBody;
use agentiso_core::{Code, Failure};
use axum::Json;
use axum::body::to_bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// The longest message of the framework that is passed on.
const LONGEST: usize = 4096;

/// Gives an error response of the framework the form of our own.
pub(super) async fn in_our_words(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !response.status().is_client_error() || kind.starts_with("application/json") {
        return response;
    }
    let (code, status) = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => (Code::FileTooLarge, StatusCode::PAYLOAD_TOO_LARGE),
        StatusCode::METHOD_NOT_ALLOWED => (Code::InvalidArgument, StatusCode::METHOD_NOT_ALLOWED),
        _ => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
    };
    let said = to_bytes(response.into_body(), LONGEST).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let message = if said.is_empty() { "the request was refused" } else { said.as_ref() };
    let failure = Failure::new(code, message).with_remedy("GET /v1/openapi.json describes the interface");
    (status, Json(ErrorBody::from(&failure))).into_response()
}
