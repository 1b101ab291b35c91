//! `avfs completions` and `avfs aliases`.

use std::io::{self, Write};

use agentiso_core::{Code, Failure};
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Context;

/// Flags of `completions`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  source <(avfs completions bash)")]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Flags of `aliases`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  source <(avfs aliases)")]
pub struct Aliases {
    /// The shell
    #[arg(long, short, default_value = "bash")]
    pub shell: Shell,
    /// What their names begin with
    #[arg(long, short, default_value = "v")]
    pub prefix: String,
}

/// Shell aliases.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AliasList {
    shell: String,
    prefix: String,
    aliases: Vec<Alias>,
}

/// One alias.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Alias {
    name: String,
    command: String,
}

/// A completion script.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Script {
    shell: String,
    script: String,
}

/// Commands that get an alias.
const SHORT: [&str; 12] =
    ["ls", "cat", "write", "cp", "mv", "rm", "mkdir", "tree", "find", "grep", "log", "diff"];

/// Prints a completion script.
pub fn completions(context: &Context, flags: Completions) -> Result<u8, Failure> {
    let name = "avfs";
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&flags.shell.to_string()) else {
        let message = format!("there are no completions for {}", flags.shell);
        return Err(Failure::new(Code::Unsupported, message));
    };
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", name, name, name, &mut script).map_err(failed)?;
    let script =
        Script { shell: flags.shell.to_string(), script: String::from_utf8_lossy(&script).into_owned() };
    context.shown.result(&script, |out| write!(out, "{}", script.script))?;
    Ok(0)
}

/// Prints aliases.
pub fn aliases(context: &Context, flags: Aliases) -> Result<u8, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !flags.prefix.chars().all(is_plain) {
        return Err(Failure::new(
            Code::InvalidArgument,
            "a prefix has letters, digits, hyphens and underscores",
        ));
    }
    let alias =
        |verb: &str| Alias { name: format!("{}{verb}", flags.prefix), command: format!("avfs {verb}") };
    let list = AliasList {
        shell: flags.shell.to_string(),
        aliases: SHORT.iter().map(|verb| alias(verb)).collect(),
        prefix: flags.prefix.clone(),
    };
    let is_fish = flags.shell == Shell::Fish;
    context.shown.result(&list, |out| {
        list.aliases.iter().try_for_each(|one| match is_fish {
            true => writeln!(out, "alias {} '{}'", one.name, one.command),
            false => writeln!(out, "alias {}='{}'", one.name, one.command),
        })
    })?;
    Ok(0)
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Code::of_io(&error), format!("could not write the script: {error}"))
}
