//! Sends response headers early for calls that take long.
//!
//! In the newest revision the library sends nothing before the first message of a call, because errors have their own
//! HTTP status. A response that has not begun after [`GRACE`] is not such an error, so its headers are sent, followed
//! by periodic comments, so that neither the client nor a proxy takes the connection for dead.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tokio::time::{interval, timeout};

/// How long a response may take before its headers are sent without it.
const GRACE: Duration = Duration::from_millis(500);
/// Interval of keep-alive comments until the response begins. Sending them also detects a disconnected client.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const EVENTS: &str = "text/event-stream";
const COMMENT: &[u8] = b":\n\n";

/// Returns the response, or an event stream that it follows in.
pub(super) async fn headers<B>(answer: impl Future<Output = Response<B>> + Send + 'static) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let mut answer = Box::pin(answer);
    if let Ok(answer) = timeout(GRACE, &mut answer).await {
        return answer.map(Body::new);
    }
    let stream = async_stream::stream! {
        let mut beats = interval(KEEP_ALIVE);
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer,
                _ = beats.tick() => yield Ok::<_, Infallible>(Bytes::from_static(COMMENT)),
            }
        };
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_events = kind.starts_with(EVENTS);
        let is_message = kind.starts_with("application/json");
        let mut body = answer.into_body();
        if is_events {
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(data) = frame.into_data() {
                    yield Ok(data);
                }
            }
        } else if is_message && let Ok(message) = body.collect().await {
            // It has no line breaks, because a program wrote it.
            yield Ok(Bytes::from([b"data: ", &message.to_bytes()[..], b"\n\n"].concat()));
        }
    };
    let mut response = Response::new(Body::from_stream(stream.boxed()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
