//! Errors as users see them.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::Code;

/// An error with a stable code and, if the user can do something about it, a remedy.
///
/// Each crate's error type implements this. `Display` tells what failed, `source` tells why.
pub trait Explain: Error + Send + Sync + 'static {
    /// The stable code.
    fn code(&self) -> Code;

    /// What the user can do next.
    fn remedy(&self) -> Option<String> {
        None
    }
}

/// An error as it is shown: what failed, why, and what to do next.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
    remedy: Option<String>,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Builds a failure from its parts.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: None, retry_after: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Removes the remedy.
    #[must_use]
    pub fn without_remedy(mut self) -> Self {
        self.remedy = None;
        self
    }

    /// Sets after what time the request may succeed.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Appends a cause to the message.
    #[must_use]
    pub fn because(mut self, cause: &str) -> Self {
        self.message = format!("{}: {cause}", self.message);
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// After what time the request may succeed, if known.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What failed and why, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: error.code(), message: chain(&error), remedy: error.remedy(), retry_after: None }
    }
}

/// Joins an error and its causes into one line, without causes that the text already ends with.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not open the disk")]
    struct Outer(#[source] std::io::Error);

    impl Explain for Outer {
        fn code(&self) -> Code {
            Code::of_io(&self.0)
        }
    }

    #[test]
    fn a_failure_reads_as_one_sentence_with_its_cause() {
        let failure = Failure::from(Outer(std::io::Error::other("the cable is out")));
        assert_eq!(failure.message(), "could not open the disk: the cable is out");
        assert_eq!(failure.code(), Code::Io);
        assert_eq!(failure.remedy(), None);
    }
}
