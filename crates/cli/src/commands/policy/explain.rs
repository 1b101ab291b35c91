//! `agentiso policy explain`.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use agentiso_policy::command::{Action, Command, PolicyExplanation, Scope, explain as explain_command};
use agentiso_proxy::PolicyFiles;
use clap::Args;

use crate::avfs;
use crate::output::Output;
use crate::ui::Stream;

/// Flags of `policy explain`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is run. Paths below the workspace and /tmp are inside; ~ is your home directory. Rules \
                        come from --policy, policy.toml beside the configuration file, and /etc/agentiso/policy.toml, \
                        in this order.\n\nExamples:\n  agentiso policy explain -- git push --force\n  \
                        agentiso policy explain --shell 'cat *.log | grep error > /etc/motd'\n  \
                        agentiso policy explain --json --workspace / --shell 'apt-get install -y jq'"
)]
pub struct Explain {
    /// A line for a shell, instead of a program with its arguments
    #[arg(long, value_name = "LINE", conflicts_with = "argv", required_unless_present = "argv")]
    pub shell: Option<String>,
    /// The directory that the command may use [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Explains what is decided in this vault, whose policy comes first
    #[arg(long, value_name = "NAME", conflicts_with = "workspace")]
    pub vault: Option<String>,
    /// Applies the rules of this file before those of the user and the system
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// A program and its arguments
    #[arg(last = true, value_name = "ARGV")]
    pub argv: Vec<String>,
}

/// Explains what the policy decides about a command.
pub fn explain(here: &Paths, flags: Explain, output: Output) -> Result<u8, Failure> {
    if let Some(vault) = flags.vault {
        let (shell, policy, argv) = (flags.shell, flags.policy, flags.argv);
        let mountpoint = avfs::WORKSPACE.into();
        return avfs::explain(here, vault, avfs::Explain { shell, policy, mountpoint, argv }, output);
    }
    let policies = PolicyFiles::of(&here.config_file).read(flags.policy.as_deref())?;
    let scope = scope(flags.workspace)?;
    let command = match &flags.shell {
        Some(line) => Command::Shell(line),
        None => Command::Argv(&flags.argv),
    };
    let explanation = explain_command(&policies, &scope, command);
    output.result(&explanation, |out| show_explanation(&explanation, out))?;
    Ok(0)
}

/// The workspace is the given or the current directory; the command starts there.
fn scope(workspace: Option<PathBuf>) -> Result<Scope, Failure> {
    let path = match &workspace {
        Some(path) => std::path::absolute(path),
        None => env::current_dir(),
    };
    let path = path.map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not find the workspace: {error}"))
            .with_remedy("give an existing directory with --workspace")
    })?;
    let scope = Scope::new(path.to_string_lossy());
    Ok(match env::home_dir() {
        Some(home) => scope.with_home(home.to_string_lossy()),
        None => scope,
    })
}

/// Shows an explanation to a person.
pub fn show_explanation(explanation: &PolicyExplanation, out: &mut Stream) -> io::Result<()> {
    let paint = out.paint();
    for step in &explanation.steps {
        writeln!(out, "{}  {}", paint.strong(&step.command), paint.faint(&step.categories.to_string()))?;
        for reason in &step.reasons {
            writeln!(out, "    {reason}")?;
        }
        for settled in &step.settled {
            writeln!(out, "    {} -> {} ({})", settled.category, settled.action, settled.rule)?;
        }
    }
    let decision = &explanation.decision;
    let action = match decision.action {
        Action::Allow | Action::AllowWithCheckpoint => paint.good(decision.action.as_str()),
        Action::RequireApproval => paint.warning(decision.action.as_str()),
        Action::Deny => paint.bad(decision.action.as_str()),
    };
    writeln!(out, "\n{action}  {}  {}", decision.categories, paint.faint(&decision.rule))?;
    match &decision.reason {
        Some(reason) => writeln!(out, "{reason}"),
        None => Ok(()),
    }
}
