//! `agentiso secret`.

use std::io::{BufRead, IsTerminal, Read, Write};

use agentiso_config::paths::Paths;
use agentiso_core::action::forms::MAX_SECRET_VALUE;
use agentiso_core::action::{SecretGrant, SecretList, SecretRemove, SecretSet};
use agentiso_core::{Code, Failure, Secret};
use clap::{Args, Subcommand};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::Daemon;
use crate::args::workspaces;
use crate::output::Output;
use crate::ui::{Stream, Table};

/// What is done with secrets.
#[derive(Debug, Subcommand)]
pub enum SecretVerb {
    /// Store a secret for some hosts; its value is read from standard input, or asked for
    #[command(
        after_help = "Workspaces that may use it find a placeholder in the variable NAME. The egress proxy replaces it in \
                      headers of requests over https to the hosts of the secret.\n\nExamples:\n  \
                      agentiso secret set API_TOKEN --host api.example.com < token.txt\n  \
                      agentiso secret set GIT_TOKEN --host git.example.com --header authorization"
    )]
    Set(SetSecret),
    /// List secrets, without their values
    #[command(visible_alias = "list", after_help = "Example:\n  agentiso secret ls")]
    Ls,
    /// Remove a secret
    #[command(visible_alias = "delete", after_help = "Example:\n  agentiso secret rm API_TOKEN")]
    Rm(RemoveSecret),
    /// Set which secrets a workspace may use; without names, none
    #[command(
        after_help = "The rules of the workspace need egress: proxy. Forks do not inherit secrets.\n\nExample:\n  \
                            agentiso secret grant web API_TOKEN"
    )]
    Grant(GrantSecrets),
}

/// Flags of `secret set`.
#[derive(Debug, Args)]
pub struct SetSecret {
    /// The secret's name, which is also the name of a variable
    name: String,
    /// A host that may get it, such as api.example.com or *.example.com; can be repeated
    #[arg(long = "host", value_name = "HOST", required = true)]
    hosts: Vec<String>,
    /// A header it may be in; can be repeated [default: every header]
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,
}

/// Flags of `secret rm`.
#[derive(Debug, Args)]
pub struct RemoveSecret {
    /// The secret's name
    name: String,
}

/// Flags of `secret grant`.
#[derive(Debug, Args)]
pub struct GrantSecrets {
    /// The workspace's name or id
    #[arg(value_name = "WS", add = workspaces())]
    workspace: String,
    /// Names of the secrets
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Stores, lists, removes and grants secrets.
pub async fn secret(here: &Paths, verb: SecretVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        SecretVerb::Set(flags) => set(here, flags, output).await,
        SecretVerb::Ls => list(here, output).await,
        SecretVerb::Rm(flags) => remove(here, flags, output).await,
        SecretVerb::Grant(flags) => grant(here, flags, output).await,
    }
}

async fn set(here: &Paths, flags: SetSecret, output: Output) -> Result<u8, Failure> {
    let value = value(&flags.name)?;
    let request = SecretSet { name: flags.name, value, hosts: flags.hosts, headers: flags.headers };
    let stored = Daemon::reach(here, output).await?.change("Still storing the secret", &request).await?;
    output.result(&stored, |out| {
        let verb = if stored.replaced { "Replaced" } else { "Stored" };
        writeln!(out, "{verb} {} for {}.", stored.name, stored.hosts.join(", "))
    })?;
    Ok(0)
}

async fn list(here: &Paths, output: Output) -> Result<u8, Failure> {
    let listed = Daemon::reach(here, output).await?.ask_quietly(&SecretList {}).await?;
    let mut table = Table::new(["SECRET", "HOSTS", "HEADERS", "WORKSPACES"]).align_right(3);
    for one in &listed.secrets {
        let headers = if one.headers.is_empty() { "every".to_owned() } else { one.headers.join(", ") };
        table.row([one.name.clone(), one.hosts.join(", "), headers, one.workspaces.to_string()]);
    }
    output.result(&listed, |out| table.write(out))?;
    Ok(0)
}

async fn remove(here: &Paths, flags: RemoveSecret, output: Output) -> Result<u8, Failure> {
    let request = SecretRemove { name: flags.name };
    let removed = Daemon::reach(here, output).await?.change("Still removing the secret", &request).await?;
    if !removed.removed {
        return Err(Failure::new(Code::SecretNotFound, format!("there is no secret '{}'", removed.name))
            .with_remedy("`agentiso secret ls` lists the secrets"));
    }
    output.result(&removed, |out| writeln!(out, "Removed {}.", removed.name))?;
    Ok(0)
}

async fn grant(here: &Paths, flags: GrantSecrets, output: Output) -> Result<u8, Failure> {
    let request = SecretGrant { workspace_id: flags.workspace.clone(), secrets: flags.names };
    let granted = Daemon::reach(here, output).await?.change("Still granting secrets", &request).await?;
    output.result(&granted, |out| match granted.secrets.is_empty() {
        true => writeln!(out, "{} may use no secret.", flags.workspace),
        false => writeln!(out, "{} may use {}.", flags.workspace, granted.secrets.join(", ")),
    })?;
    Ok(0)
}

/// Reads the value: a line that is typed without being shown, or all of standard input. Never an argument, which other
/// processes and the history of the shell would show.
fn value(name: &str) -> Result<Secret<String>, Failure> {
    let stdin = std::io::stdin();
    let failed = |error: std::io::Error| Failure::new(Code::Io, format!("could not read the value: {error}"));
    // With its final size from the start: a string that grows would leave copies behind.
    let mut text = String::with_capacity(MAX_SECRET_VALUE + 2);
    let read = if stdin.is_terminal() {
        let _ = write!(Stream::stderr(), "Value of {name}: ");
        let _hidden = Hidden::new();
        stdin.lock().take(MAX_SECRET_VALUE as u64 + 2).read_line(&mut text)
    } else {
        stdin.lock().take(MAX_SECRET_VALUE as u64 + 2).read_to_string(&mut text)
    };
    let text = Secret::new(text);
    read.map_err(failed)?;
    let value = text.expose().trim_end_matches(['\r', '\n']);
    if value.is_empty() || value.len() > MAX_SECRET_VALUE {
        let message = format!("the value of a secret has 1 to {MAX_SECRET_VALUE} characters");
        return Err(Failure::new(Code::InvalidArgument, message)
            .with_remedy(format!("agentiso secret set {name} --host HOST < FILE")));
    }
    Ok(Secret::from(value))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Hidden(Option<Termios>);

impl Hidden {
    fn new() -> Self {
        let Ok(before) = tcgetattr(std::io::stdin()) else { return Self(None) };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        let is_set = tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden).is_ok();
        Self(is_set.then_some(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If it fails, the terminal is gone.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
        }
    }
}
