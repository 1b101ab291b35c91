//! What all commands share.

use std::cell::OnceCell;
use std::env;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use agentiso_proxy::{Boundary, Mounting, Places, PolicyFiles, no_vault};
use agentiso_runtime::BootClock;
use agentiso_vfs::{
    GcDone, GcRequest, Options, Root, StateRef, TreePath, Vaults, VfsError, View, parse_path,
};

use super::answer::Shown;
use super::directory;

/// The variable that names the vault.
const VARIABLE: &str = "AVFS_VAULT";

/// What all commands share. Nothing is opened before it is needed.
pub struct Context {
    /// The directories of the installation.
    pub places: Places,
    /// The policy files.
    pub policies: PolicyFiles,
    /// How results are shown.
    pub shown: Shown,
    paths: Paths,
    named: Option<String>,
    vaults: OnceCell<Vaults>,
    clock: OnceCell<BootClock>,
}

impl Context {
    /// The context of one call.
    pub fn new(paths: Paths, named: Option<String>, shown: Shown) -> Self {
        let places = Places::new(&paths.home, env::home_dir());
        let policies = PolicyFiles::of(&paths.config_file);
        // An empty AVFS_VAULT is none.
        let named = named.or_else(|| env::var(VARIABLE).ok()).filter(|name| !name.is_empty());
        Self { places, policies, shown, paths, named, vaults: OnceCell::new(), clock: OnceCell::new() }
    }

    /// The vaults of the installation.
    pub fn vaults(&self) -> Result<&Vaults, Failure> {
        if let Some(vaults) = self.vaults.get() {
            return Ok(vaults);
        }
        create_private(&self.places.vaults)?;
        let vaults = Vaults::open(&self.places.vaults, Options::default())?;
        Ok(self.vaults.get_or_init(|| vaults))
    }

    /// The clock for approvals.
    pub fn clock(&self) -> &BootClock {
        self.clock.get_or_init(|| BootClock::open(&self.paths.home))
    }

    /// The boundary for commands.
    pub fn boundary(&self) -> Result<Boundary<'_>, Failure> {
        Ok(Boundary {
            vaults: self.vaults()?,
            places: &self.places,
            policies: &self.policies,
            clock: self.clock(),
        })
    }

    /// The vault that was named: by flag, by variable, or for the present directory.
    pub fn named(&self) -> Result<Option<String>, Failure> {
        match &self.named {
            Some(name) => Ok(Some(name.clone())),
            None => Ok(directory::default_vault(&self.places)?.map(|default| default.vault)),
        }
    }

    /// The vault to use: this one if it is given, else the one that was named.
    pub fn vault_or(&self, given: Option<String>) -> Result<String, Failure> {
        match given {
            Some(given) => Ok(given),
            None => self.vault(),
        }
    }

    /// The vault to use.
    pub fn vault(&self) -> Result<String, Failure> {
        self.named()?.ok_or_else(no_vault)
    }

    /// What nothing needs.
    pub fn garbage(&self) -> Result<GcDone, Failure> {
        let request = GcRequest { dry_run: true, ..GcRequest::default() };
        Ok(self.vaults()?.gc(&request, || self.roots())?)
    }

    /// What working directories need of the store.
    pub fn roots(&self) -> Result<Vec<Root>, VfsError> {
        match self.vaults.get() {
            Some(vaults) => agentiso_proxy::roots(vaults.store(), &self.places).map_err(foreign),
            None => Ok(Vec::new()),
        }
    }

    /// Brings what mounts of the vault have changed into the vault.
    pub fn flush_mounts(&self, vault: &str) -> Result<(), Failure> {
        // Without a mount there is no directory of mounts.
        if !self.places.mounts().exists() {
            return Ok(());
        }
        let back = Mounting::open(self.vaults()?, &self.places)?.flush(vault)?;
        if let Some(fork) = back.saved_as {
            self.shown.note(&format!("a mount is in conflict with the vault: {fork} has what the mount has"));
        }
        Ok(())
    }

    /// The present state of the vault.
    pub fn view(&self) -> Result<View, Failure> {
        Ok(self.vaults()?.view(&self.vault()?, &StateRef::Now)?)
    }
}

/// A path of a vault. Names can have any bytes.
pub fn path(given: &OsStr) -> Result<TreePath, Failure> {
    Ok(parse_path(given.as_bytes())?)
}

/// Creates a directory that only its user can enter, and those above it.
fn create_private(directory: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not create {}: {error}", directory.display()))
            .with_remedy("set AGENTISO_HOME to a directory that you may write to")
    })
}

/// A failure of what else uses the store, as an error of the vaults.
fn foreign(failure: Failure) -> VfsError {
    let source = std::io::Error::other(failure.message().to_owned());
    VfsError::Io { what: "read", path: "the working directories".into(), source }
}
