//! The policy's decision about a request.

use std::path::Path;

use agentiso_core::Failure;
use agentiso_policy::command::{
    Command, CommandPolicies, Decision, PolicyExplanation, Scope, classify, decide,
    explain as explain_command,
};
use agentiso_vfs::{VaultId, Vaults};

use super::target::Target;
use super::{Boundary, Places};
use crate::policies::PolicyFiles;
use crate::request::{Invocation, Run};

impl Boundary<'_> {
    /// Decides about a request.
    pub(super) fn judge(
        &self,
        run: &Run,
        target: &Target,
        mountpoint: &Path,
        cwd: &str,
    ) -> Result<Decision, Failure> {
        let policies = read(self.places, self.policies, &target.policy_vaults(self.vaults)?)?;
        let scope = scope(self.places, mountpoint, cwd);
        let judged = match judged(run) {
            Judged::Argv(argv) => classify(&scope, Command::Argv(&argv)),
            Judged::Shell(line) => classify(&scope, Command::Shell(line)),
        };
        Ok(decide(&policies, &judged))
    }
}

/// What is judged: the variables of a command can change what it does, so they are part of it.
enum Judged<'r> {
    Argv(Vec<String>),
    Shell(&'r str),
}

fn judged(run: &Run) -> Judged<'_> {
    let variables = run.env.iter().map(|one| format!("{}={}", one.name, one.value));
    match &run.command {
        Invocation::Argv(argv) if run.env.is_empty() => Judged::Argv(argv.clone()),
        Invocation::Shell(line) if run.env.is_empty() => Judged::Shell(line),
        Invocation::Argv(argv) => {
            let words = std::iter::once("env".to_owned()).chain(variables).chain(argv.iter().cloned());
            Judged::Argv(words.collect())
        }
        Invocation::Shell(line) => {
            let shell = ["bash", "-c", line].map(str::to_owned);
            Judged::Argv(std::iter::once("env".to_owned()).chain(variables).chain(shell).collect())
        }
    }
}

/// What the policy decides about a command in a vault, or in `directory` of the host if no vault is given.
pub fn explain(
    places: &Places,
    files: &PolicyFiles,
    vault: Option<(&Vaults, VaultId)>,
    named: Option<&Path>,
    workspace: &Path,
    command: &Invocation,
) -> Result<PolicyExplanation, Failure> {
    let policies = match (vault, named) {
        (Some((vaults, id)), None) => {
            let mut ids = vec![id];
            ids.extend(vaults.lineage(&id.to_string())?.ancestors.into_iter().map(|parent| parent.id));
            read(places, files, &ids)?
        }
        (_, named) => files.read(named)?,
    };
    let scope = scope(places, workspace, "/");
    let command = match command {
        Invocation::Argv(argv) => Command::Argv(argv),
        Invocation::Shell(line) => Command::Shell(line),
    };
    Ok(explain_command(&policies, &scope, command))
}

/// The policies for a vault: the file of the vault itself, or of the nearest ancestor that has one, so that a fork is
/// judged like its source.
fn read(places: &Places, files: &PolicyFiles, vaults: &[VaultId]) -> Result<CommandPolicies, Failure> {
    let of_vault = vaults.iter().map(|id| places.policy(*id)).find(|file| file.exists());
    files.clone().with_vault(of_vault).read(None)
}

fn scope(places: &Places, mountpoint: &Path, cwd: &str) -> Scope {
    let root = mountpoint.to_string_lossy();
    let scope = Scope::new(root.clone()).with_cwd(&format!("{root}/{cwd}"));
    match &places.home {
        Some(home) => scope.with_home(home.to_string_lossy()),
        None => scope,
    }
}
