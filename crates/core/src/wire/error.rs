//! Failures in JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::brief::in_brief;
use crate::{Code, Failure};

/// The body of every answer that reports an error.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorFields,
}

/// An error.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ErrorFields {
    /// The stable code.
    pub code: Code,
    /// What failed and why.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl From<&Failure> for ErrorFields {
    fn from(failure: &Failure) -> Self {
        let (message, remedy) = (in_brief(failure.message()), failure.remedy().map(in_brief));
        Self { code: failure.code(), message, remedy }
    }
}

impl From<ErrorFields> for Failure {
    fn from(fields: ErrorFields) -> Self {
        let failure = Self::new(fields.code, fields.message);
        match fields.remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        }
    }
}

impl From<&Failure> for ErrorBody {
    fn from(failure: &Failure) -> Self {
        Self { error: failure.into() }
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        body.error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_on_both_sides() {
        let failure = Failure::new(Code::FileNotFound, "no such file: /a").with_remedy("create it");
        let sent = serde_json::to_string(&ErrorBody::from(&failure)).unwrap();
        assert_eq!(
            sent,
            r#"{"error":{"code":"file_not_found","message":"no such file: /a","remedy":"create it"}}"#
        );
        let received: Failure = serde_json::from_str::<ErrorBody>(&sent).unwrap().into();
        assert_eq!((received.code(), received.message()), (Code::FileNotFound, "no such file: /a"));
        assert_eq!(received.remedy(), Some("create it"));
    }
}
