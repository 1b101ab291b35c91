//! Failures as HTTP has them.

use agentiso_core::{Code, Failure};
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::brief::in_brief;

/// A failure in JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ErrorBody {
    /// The failure.
    pub error: ErrorFields,
}

/// What a failure says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ErrorFields {
    /// The stable code.
    pub code: Code,
    /// What failed and why.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl From<&Failure> for ErrorBody {
    fn from(failure: &Failure) -> Self {
        let (message, remedy) = (in_brief(failure.message()), failure.remedy().map(in_brief));
        Self { error: ErrorFields { code: failure.code(), message, remedy } }
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        let failure = Self::new(body.error.code, body.error.message);
        match body.error.remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        }
    }
}

/// A failure on its way out.
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
            // In whole seconds, and no sooner than it may work.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The status that fits a code.
pub fn status_of(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument
        | Code::FileNotText
        | Code::NetworkUnavailable
        | Code::Unsupported
        | Code::EditMismatch
        | Code::NotADirectory
        | Code::NotARepository => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::NotOwner | Code::PathNotAllowed | Code::NotPermitted | Code::PermissionDenied => {
            StatusCode::FORBIDDEN
        }
        Code::WorkspaceNotFound
        | Code::SnapshotNotFound
        | Code::ImageNotFound
        | Code::JobNotFound
        | Code::SessionNotFound
        | Code::FileNotFound
        | Code::UserNotFound => StatusCode::NOT_FOUND,
        Code::WorkspaceExists
        | Code::SnapshotExists
        | Code::ImageExists
        | Code::FileExists
        | Code::ImageInUse
        | Code::SnapshotInUse
        | Code::SnapshotIncompatible
        | Code::WorkspaceBusy
        | Code::WorkspaceNotRunning
        | Code::WorkspaceRunning
        | Code::IdempotencyConflict
        | Code::PortUnavailable => StatusCode::CONFLICT,
        Code::FileTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::RateLimited | Code::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        Code::Timeout | Code::BootFailed => StatusCode::GATEWAY_TIMEOUT,
        // As a rule the caller named a branch, a remote or a commit that is not there.
        Code::GitFailed => StatusCode::UNPROCESSABLE_ENTITY,
        Code::GuestFailed | Code::VmCrashed | Code::OutOfMemory => StatusCode::BAD_GATEWAY,
        Code::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        Code::DaemonUnavailable | Code::LimitsUnavailable | Code::IsolationUnavailable => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
