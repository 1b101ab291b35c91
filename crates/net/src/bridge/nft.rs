//! Runs `nft` in the namespace: one call is one transaction.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::namespace::Namespace;

/// The program.
pub(super) const PROGRAM: &str = "nft";

/// Carries out all of these commands, or none.
pub(super) fn transaction(namespace: &Namespace, commands: String) -> io::Result<()> {
    namespace.run(move || apply(&commands))?
}

#[expect(clippy::disallowed_methods, reason = "runs in the thread of the namespace")]
fn apply(commands: &str) -> io::Result<()> {
    let mut child = Command::new(PROGRAM)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early is reported below, with what it says.
        let _ = stdin.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let first = complaint.lines().next().unwrap_or("no reason given");
    tracing::error!(%complaint, commands, "nft refused a transaction");
    Err(io::Error::other(format!("nft: {first}")))
}
