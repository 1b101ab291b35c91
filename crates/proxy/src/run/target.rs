//! The vault or fork that a command runs in.

use agentiso_core::{Code, Explain, Failure};
use agentiso_vfs::{ForkNames, ForkVault, StateRef, VaultId, VaultInfo, VaultName, Vaults};

use crate::envelope::ForkReport;
use crate::request::{Fork, Run};

/// The vault or fork that a command runs in, before anything is made.
pub struct Target {
    /// The vault that was named.
    pub source: VaultInfo,
    /// The fork, if one was asked for.
    fork: Option<PlannedFork>,
}

enum PlannedFork {
    /// With a name of its own.
    Auto,
    /// To be made with this name.
    New(VaultName),
    /// It exists.
    Existing(Box<VaultInfo>),
}

/// The vault or fork that a command runs in.
pub struct Workspace {
    /// Which.
    pub vault: VaultInfo,
    /// Whether it is a fork of the vault that was named.
    pub fork: Option<ForkReport>,
}

impl Target {
    /// Finds the vault and, if it exists, the fork. Nothing is made.
    pub fn find(vaults: &Vaults, run: &Run) -> Result<Self, Failure> {
        let Some(named) = &run.vault else { return Err(no_vault()) };
        let source = vaults.info(named)?;
        let fork = match &run.fork {
            None => None,
            Some(Fork::Auto) => Some(PlannedFork::Auto),
            Some(Fork::Named(name)) => Some(match existing(vaults, name)? {
                None => PlannedFork::New(name.parse()?),
                Some(fork) => PlannedFork::Existing(Box::new(descendant(vaults, fork, &source)?)),
            }),
        };
        Ok(Self { source, fork })
    }

    /// The vaults whose policies count, the most specific first.
    pub fn policy_vaults(&self, vaults: &Vaults) -> Result<Vec<VaultId>, Failure> {
        let start = match &self.fork {
            Some(PlannedFork::Existing(fork)) => fork,
            _ => &self.source,
        };
        let mut ids = vec![start.id];
        if start.parent.is_some() {
            ids.extend(vaults.lineage(&start.id.to_string())?.ancestors.into_iter().map(|parent| parent.id));
        }
        Ok(ids)
    }

    /// The name of the vault or fork; that of a fork which gets its name later is empty.
    pub fn planned_name(&self) -> String {
        match &self.fork {
            None => self.source.name.clone(),
            Some(PlannedFork::Auto) => String::new(),
            Some(PlannedFork::New(name)) => name.to_string(),
            Some(PlannedFork::Existing(fork)) => fork.name.clone(),
        }
    }

    /// What was asked for as fork.
    pub fn asked_fork(&self) -> Option<String> {
        self.fork.as_ref().map(|fork| match fork {
            PlannedFork::Auto => "auto".to_owned(),
            PlannedFork::New(name) => name.to_string(),
            PlannedFork::Existing(fork) => fork.name.clone(),
        })
    }

    /// Makes the fork, unless it exists.
    pub fn make(self, vaults: &Vaults, command: &str) -> Result<Workspace, Failure> {
        let (vault, created) = match self.fork {
            None => return Ok(Workspace { vault: self.source, fork: None }),
            Some(PlannedFork::Existing(fork)) => (*fork, false),
            Some(PlannedFork::Auto) => (make(vaults, &self.source, ForkNames::Automatic(1), command)?, true),
            Some(PlannedFork::New(name)) => {
                let shown = name.to_string();
                match make(vaults, &self.source, ForkNames::Given(vec![name]), command) {
                    // Another run of the same task was faster.
                    Err(failure) if failure.code() == Code::VaultExists => {
                        let fork = vaults.info(&shown)?;
                        (descendant(vaults, fork, &self.source)?, false)
                    }
                    made => (made?, true),
                }
            }
        };
        let fork = ForkReport { name: vault.name.clone(), source: self.source.name, created };
        Ok(Workspace { vault, fork: Some(fork) })
    }
}

fn existing(vaults: &Vaults, name: &str) -> Result<Option<VaultInfo>, Failure> {
    match vaults.info(name) {
        Ok(fork) => Ok(Some(fork)),
        Err(error) if error.code() == Code::VaultNotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn make(vaults: &Vaults, source: &VaultInfo, names: ForkNames, command: &str) -> Result<VaultInfo, Failure> {
    let description: String = format!("for {command}").chars().take(200).collect();
    let request = ForkVault {
        source: source.id.to_string(),
        state: StateRef::Now,
        names,
        description: Some(description),
        expires_at: None,
    };
    let made = vaults.fork(&request)?.pop();
    made.ok_or_else(|| Failure::new(Code::Internal, "the fork was made and is not known"))
}

/// Refuses a vault of that name that is something else: the command would change it.
fn descendant(vaults: &Vaults, fork: VaultInfo, source: &VaultInfo) -> Result<VaultInfo, Failure> {
    let ancestors = vaults.lineage(&fork.id.to_string())?.ancestors;
    match fork.id == source.id || ancestors.iter().any(|parent| parent.id == source.id) {
        true => Ok(fork),
        false => Err(Failure::new(
            Code::InvalidArgument,
            format!("the vault {:?} exists, and is not a fork of {:?}", fork.name, source.name),
        )
        .with_remedy("give another name with --fork, or name it with --vault")),
    }
}

/// No vault was named.
pub fn no_vault() -> Failure {
    Failure::new(Code::InvalidArgument, "no vault was named").with_remedy(
        "give one with --vault NAME, set AVFS_VAULT, or choose one for this directory with avfs vault use NAME",
    )
}
