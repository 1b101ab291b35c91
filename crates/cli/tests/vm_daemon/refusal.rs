//! The error of a failed call.

use serde_json::Value;

/// Why a call failed.
#[derive(Debug)]
pub struct Refusal {
    /// The stable error code.
    pub code: String,
    /// Message and remedy.
    pub said: String,
}

impl Refusal {
    /// Parses `{"error": {"code", "message", "remedy"}}`.
    pub fn of(body: &Value) -> Self {
        let word = |key: &str| body["error"][key].as_str().unwrap_or_default().to_owned();
        assert!(!word("code").is_empty() && !word("message").is_empty(), "not a failure: {body}");
        Self { code: word("code"), said: format!("{} {}", word("message"), word("remedy")) }
    }

    /// Asserts the code, and that the message or remedy contains these words.
    pub fn is(&self, code: &str, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.said);
        for word in words {
            assert!(self.said.contains(word), "{word:?} is not in: {}", self.said);
        }
    }
}
