//! What became of the hooks that ran in a fork or a restored machine.

use std::io::{self, Write};

use agentiso_runtime::guest::{ExitStatus, HookOutcome, HookReport};
use serde::Serialize;

use crate::ui::Stream;

/// One hook, as programs read it.
#[derive(Serialize)]
pub struct HookView {
    name: String,
    /// `exited`, `timed_out` or `skipped`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    output: String,
}

impl HookView {
    /// Says it in words.
    pub fn of(report: &HookReport) -> Self {
        let (outcome, exit_code, signal, reason) = match &report.outcome {
            HookOutcome::Exited(ExitStatus::Code(code)) => ("exited", Some(*code), None, None),
            HookOutcome::Exited(ExitStatus::Signal(number)) => ("exited", None, Some(*number), None),
            HookOutcome::TimedOut => ("timed_out", None, None, None),
            HookOutcome::Skipped(reason) => ("skipped", None, None, Some(reason.clone())),
        };
        let output = String::from_utf8_lossy(&report.output).into_owned();
        Self { name: report.name.clone(), outcome, exit_code, signal, reason, output }
    }

    /// All of a machine's hooks.
    pub fn all(reports: &[HookReport]) -> Vec<Self> {
        reports.iter().map(Self::of).collect()
    }

    /// What went wrong, if anything did.
    fn trouble(&self) -> Option<String> {
        match (self.outcome, self.exit_code, self.signal, &self.reason) {
            ("exited", Some(0), ..) => None,
            ("exited", Some(code), ..) => Some(format!("exit code {code}")),
            ("exited", _, Some(number), _) => Some(format!("ended by signal {number}")),
            (_, _, _, Some(reason)) => Some(format!("not run: {reason}")),
            _ => Some("its time was up".to_owned()),
        }
    }
}

/// Tells a person about hooks that did not do what they should.
pub fn warn(out: &mut Stream, hooks: &[HookView]) -> io::Result<()> {
    let paint = out.paint();
    for hook in hooks {
        if let Some(trouble) = hook.trouble() {
            // Both come from inside a machine.
            let line = format!("the hook {:?} failed ({}): {:?}", hook.name, trouble, hook.output.trim_end());
            writeln!(out, "{} {line}", paint.warning("warning:"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hooks_that_failed_are_warned_about() {
        let hook =
            |outcome| HookReport { name: "10-seed".to_owned(), outcome, output: b"no\x1b[2J\n".to_vec() };
        let reports = [
            hook(HookOutcome::Exited(ExitStatus::Code(0))),
            hook(HookOutcome::Exited(ExitStatus::Code(3))),
            hook(HookOutcome::Exited(ExitStatus::Signal(9))),
            hook(HookOutcome::TimedOut),
            hook(HookOutcome::Skipped("it is no regular file".to_owned())),
        ];
        let (mut out, written) = Stream::captured(false, false);
        warn(&mut out, &HookView::all(&reports)).unwrap();
        let text = written.text();
        for said in
            ["(exit code 3)", "(ended by signal 9)", "(its time was up)", "(not run: it is no regular file)"]
        {
            assert!(text.contains(said), "{text}");
        }
        assert_eq!(text.lines().count(), 4);
        assert!(!text.contains('\x1b'), "{text}");
    }
}
