//! A sandbox without namespaces: a process with limits, a filter of system calls, and Landlock, on the host's own files.
//!
//! Nothing can be mounted, so a path of the sandbox means the path of the host that would have been mounted there.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::execute::Surroundings;
use super::init::Sandbox;
use super::limits;
use super::restrict::{Allowed, Restrictions, drop_privileges};
use crate::command::Command;
use crate::enforcement::{Enforced, Enforcement, Measure, State};
use crate::kernel::landlock::Access;
use crate::spec::{Mount, Network, Root, Spec};
use crate::wire::Failure;

const NO_NAMESPACES: &str = "namespaces are not allowed here";
/// What programs read, besides what the specification shows.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc",
    "/proc",
    "/sys",
];
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm"];
/// Variables whose values are directories that would have been mounted.
const DIRECTORIES: [&str; 3] = ["HOME", "TMPDIR", "PWD"];

/// A plain process that is ready to start commands.
pub(super) struct Plain {
    pub enforcement: Enforcement,
    pub restrictions: Restrictions,
    pub paths: Paths,
}

/// Paths of the sandbox and what they mean on the host; later ones cover earlier ones.
#[derive(Debug, Default)]
pub(super) struct Paths {
    mounts: Vec<(PathBuf, PathBuf)>,
}

/// Restricts this process as far as it goes without namespaces.
pub(super) fn set_up(sandbox: &Sandbox) -> Result<Plain, Failure> {
    let spec = &sandbox.start.spec;
    let mut enforcement = Enforcement::default();
    let why = sandbox.start.refused.as_deref().unwrap_or(NO_NAMESPACES);
    for measure in [
        Measure::UserNamespace,
        Measure::PidNamespace,
        Measure::Proc,
        Measure::IpcNamespace,
        Measure::UtsNamespace,
        Measure::CgroupNamespace,
    ] {
        enforcement.record(measure, State::Unavailable, why);
    }
    let (paths, rules) = files(spec)?;
    // A terminal of the caller is not this sandbox's.
    let _ = rustix::process::setsid();
    limits::apply(sandbox, &mut enforcement);
    drop_privileges(spec, &mut enforcement)?;
    let offline = spec.network == Network::Off;
    let restrictions = Restrictions::of_host(&rules, offline, &mut enforcement)?;
    enforcement.record(Measure::Seccomp, State::Enforced, "filter of system calls");
    let is_limited = enforcement.get(Measure::Landlock).is_some_and(|one| one.state == State::Enforced);
    if is_limited {
        let detail =
            "no mount namespace: the host's files, restricted by Landlock; unix sockets by path are not";
        enforcement.record(Measure::Filesystem, State::Degraded, detail);
    } else {
        let detail = "no mount namespace and no Landlock: the command may do with files what its user may";
        enforcement.record(Measure::Filesystem, State::Unavailable, detail);
    }
    match spec.network {
        Network::Off => enforcement.record(
            Measure::Network,
            State::Degraded,
            "no network namespace: internet sockets are refused, and so is loopback",
        ),
        Network::Host | Network::Namespace => {
            enforcement.record(Measure::Network, State::Enforced, "as specified")
        }
    }
    let detail = "no pid namespace: descendants are found and killed one by one";
    enforcement.record(Measure::TreeEnds, State::Degraded, detail);
    Ok(Plain { enforcement, restrictions, paths })
}

/// What paths mean, and what may be done with them.
fn files(spec: &Spec) -> Result<(Paths, Vec<Allowed>), Failure> {
    if spec.root != Root::Host {
        return Err(unavailable("without a mount namespace only the host's own root can be used"));
    }
    let mut paths = Paths::default();
    let mut rules: Vec<Allowed> = SYSTEM.map(|path| (PathBuf::from(path), Access::Read)).into();
    rules.extend(DEVICES.map(|path| (PathBuf::from(path), Access::Use)));
    for (number, mount) in spec.mounts.iter().enumerate() {
        match mount {
            Mount::Bind(bind) => {
                let access = if bind.readonly { Access::Read } else { Access::Change };
                rules.push((bind.source.clone(), access));
                paths.mounts.push((bind.target.clone(), bind.source.clone()));
            }
            Mount::Overlay(overlay) => {
                let at = overlay.target.display();
                return Err(unavailable(&format!(
                    "without a mount namespace no overlay can be mounted at {at}"
                )));
            }
            Mount::Tmpfs(tmpfs) => {
                let Some(scratch) = &spec.scratch else { continue };
                let dir = scratch.join(number.to_string());
                fs::create_dir(&dir).map_err(|error| Failure::SetUp {
                    step: format!("make {}", dir.display()),
                    error: error.raw_os_error().unwrap_or(libc::EIO),
                })?;
                rules.push((dir.clone(), Access::Change));
                paths.mounts.push((tmpfs.target.clone(), dir));
            }
            Mount::Proc | Mount::Dev => {}
        }
    }
    // Landlock wants real paths: /bin, for example, is often a link.
    let real = rules.into_iter().filter_map(|(path, access)| Some((path.canonicalize().ok()?, access)));
    Ok((paths, real.collect()))
}

fn unavailable(why: &str) -> Failure {
    let (measure, state) = (Measure::Filesystem, State::Unavailable);
    Failure::Unavailable(Enforced { measure, state, detail: format!("{NO_NAMESPACES}: {why}") })
}

impl Paths {
    /// The path of the host.
    fn on_host(&self, path: &Path) -> Option<PathBuf> {
        let covering = self
            .mounts
            .iter()
            .rev()
            .find_map(|(target, source)| path.strip_prefix(target).ok().map(|rest| (source, rest)));
        covering.map(
            |(source, rest)| if rest.as_os_str().is_empty() { source.clone() } else { source.join(rest) },
        )
    }

    /// What is different for a command.
    pub fn surroundings<'a>(
        &self,
        command: &Command,
        restrictions: Option<&'a Restrictions>,
        renames_to: Option<&'a OwnedFd>,
    ) -> Surroundings<'a> {
        let cwd = self.on_host(&command.cwd).unwrap_or_else(|| command.cwd.clone());
        let translated = |name: &'static str| {
            let value = command.env.get(name)?;
            Some((name, self.on_host(Path::new(value))?))
        };
        Surroundings {
            cwd,
            variables: DIRECTORIES.into_iter().filter_map(translated).collect(),
            restrictions,
            renames_to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_that_covers_a_path_says_what_it_means() {
        let mount = |target: &str, source: &str| (PathBuf::from(target), PathBuf::from(source));
        let paths = Paths { mounts: vec![mount("/workspace", "/w"), mount("/workspace/sub", "/s")] };
        assert_eq!(paths.on_host(Path::new("/workspace")), Some("/w".into()));
        assert_eq!(paths.on_host(Path::new("/workspace/a/b")), Some("/w/a/b".into()));
        assert_eq!(paths.on_host(Path::new("/workspace/sub/b")), Some("/s/b".into()));
        assert_eq!(paths.on_host(Path::new("/workspaces")), None);
    }
}
