//! What all verbs need to answer with.

use std::io::{self, Write};
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use serde::Serialize;

use crate::ui::{Stream, progress, report};

/// How results and progress are shown.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Results are JSON.
    pub json: bool,
    /// Progress is not shown.
    pub quiet: bool,
}

impl Output {
    /// Where progress goes.
    pub fn progress(&self) -> Arc<dyn Progress> {
        Arc::from(progress(self.quiet || self.json))
    }

    /// Shows what failed, to a person or a program.
    pub fn failure(&self, failure: &Failure) {
        // If this cannot be written either, there is nowhere left to report it.
        let _ = report(failure, self.json, &mut Stream::stdout(), &mut Stream::stderr());
    }

    /// Prints a result: as JSON for a program, else with `text` for a person.
    pub fn result<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&mut Stream) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = Stream::stdout();
        let written = if self.json {
            serde_json::to_string(value).map_err(io::Error::other).and_then(|line| writeln!(out, "{line}"))
        } else {
            text(&mut out)
        };
        written.and_then(|()| out.flush()).or_else(ignore_closed_pipe)
    }
}

/// A reader may stop early, as `head` does; that is not a failure.
fn ignore_closed_pipe(error: io::Error) -> Result<(), Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::new(Code::of_io(&error), format!("could not write the result: {error}"))),
    }
}
