//! `agentiso policy`: what the command policy says, without a daemon.

mod check;
mod explain;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use clap::Subcommand;

use crate::output::Output;

pub use explain::show_explanation;

/// Commands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Show what a command may do, step by step, and what the policy decides about it
    Explain(explain::Explain),
    /// Check a policy file, and show every mistake with its line
    Check(check::Check),
}

/// Explains a decision, or checks a policy file.
pub async fn policy(here: &Paths, verb: PolicyVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        PolicyVerb::Explain(flags) => explain::explain(here, flags, output),
        PolicyVerb::Check(flags) => check::check(&flags, output),
    }
}
