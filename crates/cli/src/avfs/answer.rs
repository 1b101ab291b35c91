//! What commands answer with.

use std::io::{self, Write};

use agentiso_core::{Code, Failure};
use agentiso_proxy::envelope::ErrorReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ui::{Stream, harmless};

/// A value that a command prints with `--json`. Its schema is published under its name: see `schemas.rs`.
pub trait Answer: Serialize + JsonSchema {
    /// The name of the schema.
    const NAME: &'static str;
}

/// An error.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: ErrorReport,
}

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// As JSON.
    pub json: bool,
    /// Without notes.
    pub quiet: bool,
}

impl Shown {
    /// Prints a result: as JSON for a program, else with `text` for a person.
    pub fn result<T: Answer>(
        self,
        value: &T,
        text: impl FnOnce(&mut Stream) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = Stream::stdout();
        let written = if self.json {
            let line = serde_json::to_string(value).map_err(io::Error::other);
            line.and_then(|line| writeln!(out, "{line}"))
        } else {
            text(&mut out)
        };
        written.and_then(|()| out.flush()).or_else(ignore_closed_pipe)
    }

    /// Prints a note for a person.
    pub fn note(self, text: &str) {
        if !self.json && !self.quiet {
            // Nothing depends on it.
            let _ = writeln!(Stream::stderr(), "{}", harmless(text));
        }
    }

    /// Prints what failed: on standard output for a program, on standard error for a person.
    pub fn failure(self, failure: &Failure) {
        // If this cannot be written either, there is nowhere left to report it.
        let _ = self.try_failure(failure);
    }

    fn try_failure(self, failure: &Failure) -> io::Result<()> {
        if self.json {
            let answer = ErrorAnswer { error: ErrorReport::from(failure) };
            let line = serde_json::to_string(&answer).map_err(io::Error::other)?;
            return writeln!(Stream::stdout(), "{line}");
        }
        let mut err = Stream::stderr();
        let paint = err.paint();
        let label = paint.bad(&format!("error[{}]", failure.code()));
        writeln!(err, "{label}: {}", harmless(failure.message()))?;
        if let Some(remedy) = failure.remedy() {
            writeln!(err, "  {} {}", paint.good("try:"), harmless(remedy))?;
        }
        err.flush()
    }
}

/// A reader may stop early, as `head` does; that is not a failure.
pub fn ignore_closed_pipe(error: io::Error) -> Result<(), Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::new(Code::of_io(&error), format!("could not write the result: {error}"))),
    }
}
