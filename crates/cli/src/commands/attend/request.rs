//! From flags to what is asked of a machine.

use std::os::unix::ffi::OsStringExt;

use agentiso_api::http::ExecSpec;
use agentiso_core::{Code, Failure};
use agentiso_engine::Word;

use crate::args::Command;
use crate::output::Output;
use crate::terminal;

/// The command the flags ask for.
pub fn command(flags: &Command, output: Output) -> Result<ExecSpec, Failure> {
    if flags.tty && output.json {
        return Err(invalid("--tty and --json cannot be used together"));
    }
    let env = flags.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    if flags.timeout == Some(0) {
        return Err(invalid("--timeout must be at least 1 second"));
    }
    Ok(ExecSpec {
        argv: flags.words.iter().map(|word| word.clone().into_vec().into()).collect(),
        env: env.into_iter().flatten().collect(),
        workdir: flags.workdir.clone(),
        user: flags.user.clone(),
        stdin: true,
        tty: flags.tty.then(terminal::size),
        timeout_ms: flags.timeout.map(|seconds| seconds.saturating_mul(1000)),
    })
}

/// `NAME=VALUE`, or `NAME` alone for the value it has here; a variable that is not set here is left out.
fn variable(text: &str) -> Result<Option<(String, Word)>, Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(Word::Text(value.to_owned()))),
        None => (text, std::env::var_os(text).map(|value| value.into_vec().into())),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(invalid("--env wants NAME=VALUE or NAME").with_remedy("for example --env EDITOR=vi"));
    }
    Ok(value.map(|value| (name.to_owned(), value)))
}

fn invalid(message: &str) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_may_hold_equal_signs_and_need_a_name() {
        assert_eq!(variable("A=b=c").unwrap(), Some(("A".to_owned(), Word::Text("b=c".to_owned()))));
        assert_eq!(variable("NO_SUCH_VARIABLE_HERE").unwrap(), None);
        assert!(variable("=x").is_err());
    }
}
