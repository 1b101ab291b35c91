//! What the sandbox of a command contains.

use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_jail::{Bind, Command, Environment, Mount, Network, Overlay, Spec, State};

use crate::approvals::INSIDE;
use crate::envelope::{EnforcementReport, Protection, ProtectionState, ResultReport};
use crate::request::Run;

/// Where commands see their vault, unless another directory was given.
pub const WORKSPACE: &str = "/workspace";
/// What a vault must not cover: the system itself, and what the sandbox provides.
const RESERVED: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// The directory at which the command sees the vault.
pub fn mountpoint(run: &Run) -> Result<PathBuf, Failure> {
    let Some(given) = &run.mountpoint else {
        if run.keep_mount {
            return Err(refused("--keep-mount needs a directory", "give one with --mountpoint DIR"));
        }
        return Ok(PathBuf::from(WORKSPACE));
    };
    let shown = given.display();
    let found = given.canonicalize().map_err(|error| {
        Failure::new(Code::InvalidArgument, format!("could not use the mountpoint {shown}: {error}"))
            .with_remedy("give an existing directory with --mountpoint")
    })?;
    if !found.is_dir() {
        return Err(refused(format!("{shown} is not a directory"), "give an existing directory"));
    }
    let is_reserved = RESERVED.iter().any(|reserved| found.starts_with(reserved));
    // It would also cover the home directory of the command.
    let is_above = Path::new(Spec::HOME).starts_with(&found);
    if is_reserved || is_above {
        return Err(refused(
            format!("the vault cannot be at {shown}: that is part of the system"),
            "give another directory",
        ));
    }
    Ok(found)
}

fn refused(message: impl Into<String>, remedy: &str) -> Failure {
    Failure::new(Code::InvalidArgument, message).with_remedy(remedy)
}

/// How the command sees the files of the vault.
pub enum Files {
    /// Layers, the uppermost first; without a writable one they are read-only.
    Layers { lowers: Vec<PathBuf>, writable: Option<(PathBuf, PathBuf)> },
    /// A directory.
    Directory { path: PathBuf, readonly: bool },
}

/// The sandbox.
pub fn spec(files: &Files, mountpoint: &Path, network: bool) -> Spec {
    let mount: Mount = match files {
        Files::Layers { lowers, writable } => Overlay {
            lowers: lowers.clone(),
            upper: writable.as_ref().map(|(upper, _)| upper.clone()),
            work: writable.as_ref().map(|(_, work)| work.clone()),
            target: mountpoint.to_owned(),
            readonly: writable.is_none(),
        }
        .into(),
        Files::Directory { path, readonly: true } => Bind::readonly(path, mountpoint).into(),
        Files::Directory { path, readonly: false } => Bind::writable(path, mountpoint).into(),
    };
    let mut spec = Spec::new().mount(mount);
    // What a power failure leaves of a run is removed, not recorded.
    spec.volatile_overlays = true;
    // Without root an overlay does not rename directories of its lower layers.
    spec.supervised_renames = matches!(files, Files::Layers { writable: Some(_), .. });
    // What the policy calls networked got here by a rule or by the owner's approval.
    if network {
        spec.network = Network::Host;
    }
    spec
}

/// The command in the sandbox.
pub fn command(run: &Run, result: &ResultReport, mountpoint: &Path, id: &str) -> Command {
    let mut env = Environment::standard(Spec::HOME, std::env::vars_os());
    for variable in &run.env {
        env.set(&variable.name, &variable.value);
    }
    env.set("AVFS_VAULT", &result.workspace);
    env.set("AVFS_MOUNTPOINT", mountpoint);
    env.set(INSIDE, id);
    let cwd = mountpoint.join(result.cwd.trim_start_matches('/'));
    let mut command = Command::new(&result.argv).env(env).cwd(cwd);
    command.timeout = run.timeout;
    command
}

/// What is in force.
pub fn report(enforcement: &agentiso_jail::Enforcement, spec: &Spec, files: &Files) -> EnforcementReport {
    let protection = |one: &agentiso_jail::Enforced| Protection {
        name: one.measure.to_string(),
        state: match one.state {
            State::Enforced => ProtectionState::Enforced,
            State::Degraded => ProtectionState::Degraded,
            State::Unavailable => ProtectionState::Unavailable,
        },
        detail: (!one.detail.is_empty()).then(|| one.detail.clone()),
    };
    let mount = match files {
        Files::Layers { .. } => "overlay",
        Files::Directory { .. } => "directory",
    };
    let network = match spec.network {
        Network::Off => "none",
        Network::Host => "host",
        Network::Namespace => "namespace",
    };
    EnforcementReport {
        complete: enforcement.is_complete(),
        mount: mount.to_owned(),
        network: network.to_owned(),
        protections: enforcement.measures().iter().map(protection).collect(),
    }
}
