//! Giving up privileges, and the second layer: Landlock and the filter of system calls.

use std::path::PathBuf;

use rustix::io::Errno;

use super::init::failed;
use crate::enforcement::{Enforcement, Measure, State};
use crate::kernel::capabilities;
use crate::kernel::landlock::{self, Access, Ruleset};
use crate::kernel::mounts::open_host;
use crate::kernel::seccomp::{Filter, Sockets, sandbox};
use crate::spec::{FileCapabilities, Spec};
use crate::wire::Failure;

/// A path and what may be done below it.
pub(super) type Allowed = (PathBuf, Access);

/// Restrictions that a process applies to itself and to all it starts.
pub(super) struct Restrictions {
    landlock: Option<Ruleset>,
    filter: Filter,
}

/// Drops capabilities, and the possibility to gain any.
pub(super) fn drop_privileges(spec: &Spec, enforcement: &mut Enforcement) -> Result<(), Failure> {
    rustix::thread::set_no_new_privs(true).map_err(|error| failed("set no_new_privs", error))?;
    enforcement.record(Measure::NoNewPrivileges, State::Enforced, "no_new_privs");
    capabilities::drop_all(spec.file_capabilities).map_err(|error| failed("drop capabilities", error))?;
    let detail = match spec.file_capabilities {
        FileCapabilities::None => "no capabilities",
        FileCapabilities::All => {
            "chown, dac_override, fowner and fsetid over files of the sandbox, as specified"
        }
    };
    enforcement.record(Measure::Capabilities, State::Enforced, detail);
    Ok(())
}

impl Restrictions {
    /// Restrictions of a sandbox with its own files and network.
    pub fn of_view(rules: &[Allowed], enforcement: &mut Enforcement) -> Result<Self, Failure> {
        Self::plan(rules, Sockets::Internet, false, enforcement)
    }

    /// Restrictions of a process that sees the host's files. With `offline` it has no network either.
    pub fn of_host(rules: &[Allowed], offline: bool, enforcement: &mut Enforcement) -> Result<Self, Failure> {
        let sockets = if offline { Sockets::Unix } else { Sockets::Internet };
        Self::plan(rules, sockets, offline, enforcement)
    }

    fn plan(
        rules: &[Allowed],
        sockets: Sockets,
        no_tcp: bool,
        enforcement: &mut Enforcement,
    ) -> Result<Self, Failure> {
        let landlock = match landlock::version() {
            None => {
                enforcement.record(Measure::Landlock, State::Unavailable, "the kernel has no Landlock");
                None
            }
            Some(version) if version < landlock::USABLE => {
                let detail = format!("version {version} would forbid moving files between directories");
                enforcement.record(Measure::Landlock, State::Unavailable, detail);
                None
            }
            Some(version) => {
                let ruleset =
                    ruleset(version, rules, no_tcp).map_err(|error| failed("make Landlock rules", error))?;
                let scopes = if version >= 6 { "with" } else { "without" };
                let detail = format!("version {version}, {scopes} scopes for abstract sockets and signals");
                enforcement.record(Measure::Landlock, State::Enforced, detail);
                Some(ruleset)
            }
        };
        Ok(Self { landlock, filter: sandbox(sockets) })
    }

    /// Applies them to this process.
    pub fn apply(&self, enforcement: &mut Enforcement) -> Result<(), Failure> {
        self.apply_landlock().map_err(|error| failed("apply Landlock", error))?;
        match self.filter.apply() {
            Ok(()) => enforcement.record(Measure::Seccomp, State::Enforced, "filter of system calls"),
            Err(error @ (Errno::NOSYS | Errno::INVAL)) => {
                let detail = format!("the kernel has no seccomp filters: {error}");
                enforcement.record(Measure::Seccomp, State::Unavailable, detail);
            }
            Err(error) => return Err(failed("apply the filter of system calls", error)),
        }
        Ok(())
    }

    /// Applies them between fork and exec.
    pub fn apply_to_command(&self) -> Result<(), Errno> {
        self.apply_landlock()?;
        match self.filter.apply() {
            Ok(()) | Err(Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn apply_landlock(&self) -> Result<(), Errno> {
        self.landlock.as_ref().map_or(Ok(()), Ruleset::apply)
    }
}

fn ruleset(version: u32, rules: &[Allowed], no_tcp: bool) -> Result<Ruleset, Errno> {
    let ruleset = Ruleset::new(version, no_tcp)?;
    for (path, access) in rules {
        let place = open_host(path)?;
        let kind = rustix::fs::fstat(&place)?.st_mode;
        let is_dir = rustix::fs::FileType::from_raw_mode(kind) == rustix::fs::FileType::Directory;
        ruleset.allow(&place, is_dir, *access)?;
    }
    Ok(ruleset)
}
