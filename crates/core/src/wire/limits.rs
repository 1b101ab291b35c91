//! How long the body of a request may be.

use crate::action::{Body, about};
use crate::{Code, Failure};

/// The most bytes that the body of a request for an action may have.
pub fn body_limit(action: &str) -> usize {
    about(action).map_or(Body::Small, |about| about.body).max_bytes()
}

/// The error for a body that is longer than its action allows.
pub fn body_too_long(limit: usize) -> Failure {
    Failure::new(
        Code::FileTooLarge,
        format!("the request is longer than {limit} bytes, the limit for this action"),
    )
    .with_remedy("send large files in pieces with append, or copy them with file_transfer or agentiso cp")
}
