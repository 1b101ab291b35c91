//! What the framework refuses before a handler sees it, in our own words.

use agentiso_core::wire::ErrorBody;
use agentiso_core::{Code, Failure};
use axum::Json;
use axum::body::to_bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// The longest words of the framework that are passed on.
const LONGEST: usize = 4096;

/// Gives a refusal that is not ours the form of one that is.
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
    let message = if said.is_empty() { "the request cannot be answered" } else { said.as_ref() };
    let failure = Failure::new(code, message).with_remedy("GET /v1/openapi.json says what is understood");
    (status, Json(ErrorBody::from(&failure))).into_response()
}
