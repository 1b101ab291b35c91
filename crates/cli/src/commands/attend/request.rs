//! From flags to a command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use agentiso_core::wire::ExecSpec;
use agentiso_core::{Code, Failure};

use crate::args::{Command, Conditions};
use crate::output::Output;
use crate::terminal;

/// The command that the flags describe.
pub fn command(flags: &Command, output: Output) -> Result<ExecSpec, Failure> {
    if flags.tty && output.json {
        return Err(invalid("--tty and --json cannot be used together"));
    }
    let Conditions { env, workdir, user, timeout } = &flags.conditions;
    let env = env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(ExecSpec {
        argv: flags.words.iter().map(|word| word.clone().into_vec().into()).collect(),
        env: env.into_iter().flatten().map(|(name, value)| (name, value.into_vec().into())).collect(),
        workdir: workdir.clone(),
        user: user.clone(),
        stdin: !flags.no_stdin,
        report_input: false,
        tty: flags.tty.then(terminal::size),
        timeout_ms: timeout.map(|seconds| seconds.saturating_mul(1000)),
    })
}

/// `NAME=VALUE`, or `NAME` alone for the value it has here; a variable that is not set here is left out.
pub fn variable(text: &str) -> Result<Option<(String, OsString)>, Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(invalid("--env takes NAME=VALUE or NAME").with_remedy("for example --env EDITOR=vi"));
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
        assert_eq!(variable("A=b=c").unwrap(), Some(("A".to_owned(), "b=c".into())));
        assert_eq!(variable("NO_SUCH_VARIABLE_HERE").unwrap(), None);
        assert!(variable("=x").is_err());
    }
}
