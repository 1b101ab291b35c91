//! `agentiso completions`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use clap_complete::env::Shells;

use crate::args;
use crate::output::Output;

/// The variable by which a shell asks for completions.
const VARIABLE: &str = "COMPLETE";
const NAME: &str = "agentiso";

/// Prints what makes a shell ask us for completions.
pub async fn completions((): &(), flags: args::Completions, output: Output) -> Result<u8, Failure> {
    let shell = flags.shell.to_string();
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell) else {
        return Err(Failure::new(Code::Unsupported, format!("there are no completions for {shell}")));
    };
    let script = Output { json: false, ..output };
    script.result(&(), |out| {
        if shell == "bash" {
            // Bash takes a colon for the end of a word, and would complete WS:PATH as a path of this host.
            writeln!(out, "COMP_WORDBREAKS=${{COMP_WORDBREAKS//:}}")?;
        }
        completer.write_registration(VARIABLE, NAME, NAME, NAME, out)
    })?;
    Ok(0)
}
