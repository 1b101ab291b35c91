//! `agentiso jobs kill`.

use std::io::Write;

use agentiso_core::action::{JobKill, JobStatus};
use agentiso_core::{Code, Failure};

use crate::commands::Daemon;
use crate::output::Output;

/// The signals people send, by their numbers.
const SIGNALS: [(&str, i32); 10] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("WINCH", 28),
];

pub async fn kill(
    daemon: &Daemon,
    workspace: String,
    id: u32,
    signal: &str,
    output: Output,
) -> Result<u8, Failure> {
    let request = JobKill { workspace_id: workspace, job_id: id, signal: Some(number(signal)?) };
    let killed = daemon.ask("Still signalling", &request).await?;
    output.result(&killed, |out| match killed.status {
        JobStatus::Ended => writeln!(out, "Job {id} had already ended."),
        status => writeln!(out, "Job {id}: {status}."),
    })?;
    Ok(0)
}

/// A signal by name, with SIG before it or not, or by number.
fn number(text: &str) -> Result<i32, Failure> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let given = text.parse().ok().filter(|number| (1..=64).contains(number));
    known.or(given).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        Failure::new(Code::InvalidArgument, format!("unknown signal {text:?}"))
            .with_remedy(format!("use 1 to 64, or one of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, expected) in [("KILL", 9), ("sigterm", 15), ("Int", 2), ("64", 64), ("1", 1)] {
            assert_eq!(number(text).unwrap(), expected, "{text}");
        }
        for bad in ["", "0", "65", "-9", "SIG", "NONE"] {
            assert_eq!(number(bad).unwrap_err().code(), Code::InvalidArgument, "{bad}");
        }
    }
}
