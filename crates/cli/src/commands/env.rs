//! `agentiso env`.

use std::collections::BTreeMap;
use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::action::SetEnv;
use agentiso_core::{Code, Failure};

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Changes the variables of a workspace and shows the names there are.
pub async fn env(here: &Paths, flags: args::Env, output: Output) -> Result<u8, Failure> {
    let vars = flags.changes.iter().map(|text| change(text)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let request = SetEnv { workspace_id: flags.workspace, vars: vars.into() };
    let set = Daemon::reach(here, output).await?.ask("Still setting variables", &request).await?;
    output.result(&set, |out| set.names.iter().try_for_each(|name| writeln!(out, "{name}")))?;
    Ok(0)
}

/// `NAME=VALUE` sets, `NAME` alone sets the value it has here, `NAME-` removes.
fn change(text: &str) -> Result<(String, Option<String>), Failure> {
    let invalid = |message: String| Failure::new(Code::InvalidArgument, message);
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), Some(value.to_owned())));
    }
    if let Some(name) = text.strip_suffix('-') {
        return Ok((name.to_owned(), None));
    }
    match std::env::var(text) {
        Ok(value) => Ok((text.to_owned(), Some(value))),
        Err(std::env::VarError::NotPresent) => {
            Err(invalid(format!("the variable {text} is not set in this environment"))
                .with_remedy(format!("use {text}=VALUE to set it, or {text}- to remove it")))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(invalid(format!("the value of the variable {text} is not UTF-8")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_takes_the_value_from_here_and_must_have_one() {
        assert_eq!(change("A=b=c").unwrap(), ("A".to_owned(), Some("b=c".to_owned())));
        assert_eq!(change("A-").unwrap(), ("A".to_owned(), None));
        let here = std::env::var("PATH").unwrap();
        assert_eq!(change("PATH").unwrap(), ("PATH".to_owned(), Some(here)));
        assert_eq!(change("NO_SUCH_VARIABLE_HERE").unwrap_err().code(), Code::InvalidArgument);
    }
}
