//! Showing what became of a command.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use agentiso_core::Failure;
use agentiso_proxy::envelope::{Envelope, Outcome};
use agentiso_proxy::{Live, OutputStream};

use super::live::{OutputEvent, whole};
use crate::avfs::answer::{Answer, Shown, ignore_closed_pipe};
use crate::ui::{Stream, harmless};

impl Answer for Envelope {
    const NAME: &'static str = "proxy_exec_result";
}

/// Passes output on while a command runs: as it is for a person, or as events for a program that asked for them.
pub struct Shower {
    shown: Shown,
    is_live: bool,
    /// The beginning of a character whose rest has not arrived, of both streams.
    rest: Mutex<[Vec<u8>; 2]>,
}

impl Shower {
    /// For a person everything is shown at once.
    pub fn new(shown: Shown, stream: bool) -> Self {
        Self { shown, is_live: !shown.json || stream, rest: Mutex::default() }
    }

    fn event(&self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = &mut rest[usize::from(stream == OutputStream::Stderr)];
        rest.extend_from_slice(bytes);
        let (now, later) = whole(rest);
        let text = String::from_utf8_lossy(now).into_owned();
        let later = later.to_vec();
        *rest = later;
        if text.is_empty() {
            return Ok(());
        }
        let event = OutputEvent { schema_version: 1, kind: "proxy_exec_output", stream, text };
        let line = serde_json::to_string(&event).map_err(io::Error::other)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }
}

impl Live for Shower {
    fn output(&self, stream: OutputStream, bytes: &[u8]) {
        if !self.is_live {
            return;
        }
        // A reader that has gone does not end the command; its output is in the envelope.
        let _ = match (self.shown.json, stream) {
            (true, _) => self.event(stream, bytes),
            (false, OutputStream::Stdout) => pass_on(&mut Stream::stdout(), bytes),
            (false, OutputStream::Stderr) => pass_on(&mut Stream::stderr(), bytes),
        };
    }
}

fn pass_on(to: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    let to = to.verbatim();
    to.write_all(bytes)?;
    to.flush()
}

/// Shows an envelope and returns the exit code. A person has seen the output already.
pub fn show(shown: Shown, envelope: &Envelope) -> Result<u8, Failure> {
    if shown.json {
        json(envelope).or_else(ignore_closed_pipe)?;
    } else {
        // Notes for a person; the exit code says the same.
        let _ = notes(shown, envelope);
    }
    Ok(envelope.result.exit_status)
}

/// Prints an envelope on one line.
pub fn json(envelope: &Envelope) -> io::Result<()> {
    let line = serde_json::to_string(envelope).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn notes(shown: Shown, envelope: &Envelope) -> io::Result<()> {
    let result = &envelope.result;
    let mut err = Stream::stderr();
    let paint = err.paint();
    let reason = result.decision.reason.as_deref().unwrap_or("the policy says so");
    match result.outcome {
        Outcome::Denied => {
            let label = paint.bad("denied");
            writeln!(err, "{label}: {} ({})", harmless(reason), harmless(&result.decision.rule))?;
        }
        Outcome::ApprovalRequired => {
            let label = paint.warning("approval required");
            writeln!(err, "{label}: {}", harmless(reason))?;
            if let Some(approval) = &result.approval {
                writeln!(err, "  the owner can grant it with: {}", approval.grant_with)?;
                writeln!(err, "  then run it again with --approve {}", approval.token)?;
            }
        }
        Outcome::Planned => {
            writeln!(err, "{}: {}", paint.good("would run"), result.decision.action)?;
        }
        Outcome::TimedOut => writeln!(err, "{} after {} ms", paint.bad("timed out"), result.duration_ms)?,
        Outcome::Killed => {
            let signal = result.signal_name.as_deref().unwrap_or("a signal");
            writeln!(err, "{} by {signal}", paint.bad("killed"))?;
        }
        Outcome::Failed if !shown.quiet => writeln!(err, "(exit code: {})", result.exit_code)?,
        _ => {}
    }
    if let Some(error) = &result.error {
        let label = paint.bad(&format!("error[{}]", error.code));
        writeln!(err, "{label}: {}", harmless(&error.message))?;
        if let Some(remedy) = &error.remedy {
            writeln!(err, "  {} {}", paint.good("try:"), harmless(remedy))?;
        }
    }
    if shown.quiet {
        return Ok(());
    }
    for warning in &result.warnings {
        writeln!(err, "{}: {}", paint.warning("warning"), harmless(warning))?;
    }
    for conflict in &result.conflicts {
        let label = paint.warning("conflict");
        writeln!(err, "{label}: {}: {}", harmless(&conflict.path), harmless(&conflict.reason))?;
    }
    let changed = match result.changes_total {
        0 => String::new(),
        // They could not be recorded.
        _ if result.error.is_some() => String::new(),
        1 => format!("1 file changed in {}", result.workspace),
        many => format!("{many} files changed in {}", result.workspace),
    };
    let checkpoint = result.checkpoint.as_ref().map(|name| format!("checkpoint {name}"));
    let parts: Vec<&str> = [changed.as_str(), checkpoint.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    if !changed.is_empty() || result.fork.is_some() {
        writeln!(err, "{}", paint.faint(&format!("({})", harmless(&parts.join("; ")))))?;
    }
    Ok(())
}
