//! The init of a sandbox: sets it up and runs what was asked for.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};

use super::files;
use super::limits;
use super::plain;
use super::restrict::{self, Restrictions};
use super::session;
use super::supervise::{self, Scope};
use crate::enforcement::{Enforcement, Measure, State};
use crate::kernel::loopback;
use crate::spec::Network;
use crate::wire::{Failure, Mode, Report, Start, send};

/// What an init was given.
pub(super) struct Sandbox {
    pub start: Start,
    pub stdio: Option<[OwnedFd; 3]>,
    /// To the caller: closed when it ends.
    pub channel: OwnedFd,
    /// Whether the caller is root in its user namespace.
    pub as_root: bool,
}

/// How commands are started in a sandbox that is set up.
pub(super) struct Ready {
    /// Which processes end with a command.
    pub scope: Scope,
    /// What each command applies to itself, where init does not apply it to itself.
    pub of_command: Option<Restrictions>,
    /// Translates paths where nothing can be mounted.
    pub paths: Option<plain::Paths>,
    /// Whether the caller is asked about renames.
    pub supervised_renames: bool,
}

/// Pid 1 of new namespaces.
pub(super) fn run(sandbox: Sandbox) {
    let outcome = set_up(&sandbox).map(|enforcement| (enforcement, None, None));
    serve(sandbox, outcome);
}

/// A process without namespaces.
pub(super) fn run_plain(sandbox: Sandbox) {
    let outcome = plain::set_up(&sandbox).map(|plain::Plain { enforcement, restrictions, paths }| {
        (enforcement, Some(restrictions), Some(paths))
    });
    serve(sandbox, outcome);
}

type Outcome = Result<(Enforcement, Option<Restrictions>, Option<plain::Paths>), Failure>;

fn serve(sandbox: Sandbox, outcome: Outcome) {
    let Sandbox { start, stdio, channel, .. } = sandbox;
    let checked = outcome.and_then(|outcome| match outcome.0.missing(&start.spec.require) {
        Some(missing) => Err(Failure::Unavailable(missing.clone())),
        None => Ok(outcome),
    });
    let (enforcement, of_command, paths) = match checked {
        Ok(outcome) => outcome,
        Err(failure) => {
            // If nobody reads it, nobody waits for it.
            let _ = send(&channel, &Report::Failed(failure), &[]);
            return;
        }
    };
    if send(&channel, &Report::Ready(enforcement), &[]).is_err() {
        return;
    }
    let is_namespace = of_command.is_none();
    let scope = if is_namespace && start.command.is_some() { Scope::Namespace } else { Scope::Descendants };
    let ready = Ready { scope, of_command, paths, supervised_renames: start.spec.supervised_renames };
    match (start.command, stdio) {
        (Some(command), Some(stdio)) => supervise::run(&ready, &command, stdio, &channel),
        _ => session::serve(&ready, &channel),
    }
}

fn set_up(sandbox: &Sandbox) -> Result<Enforcement, Failure> {
    let spec = &sandbox.start.spec;
    let mut enforcement = Enforcement::default();
    // A terminal of the caller is not this sandbox's.
    let _ = setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    namespaces(sandbox, &mut enforcement);
    let view = files::enter(spec, &mut enforcement)?;
    enforcement.record(Measure::Filesystem, State::Enforced, "mount namespace with its own root");
    limits::apply(sandbox, &mut enforcement);
    files::protect_proc(&view).map_err(Failure::from)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| failed("protect init", error))?;
    restrict::drop_privileges(spec, &mut enforcement)?;
    let restrictions = Restrictions::of_view(&view.rules, &mut enforcement)?;
    restrictions.apply(&mut enforcement)?;
    enforcement.record(Measure::TreeEnds, State::Enforced, "the pid namespace ends with its init");
    Ok(enforcement)
}

/// Records the namespaces, which exist, and puts something into them.
fn namespaces(sandbox: &Sandbox, enforcement: &mut Enforcement) {
    let spec = &sandbox.start.spec;
    match sandbox.start.mode {
        Mode::Namespaces if sandbox.as_root => enforcement.record(
            Measure::UserNamespace,
            State::Enforced,
            "user namespace with the same users; no capability of the host",
        ),
        Mode::Namespaces => {
            enforcement.record(
                Measure::UserNamespace,
                State::Enforced,
                "user namespace with the caller alone",
            );
        }
        Mode::NoUserNamespace | Mode::Plain => enforcement.record(
            Measure::UserNamespace,
            State::Unavailable,
            "user namespaces are disabled; capabilities are dropped instead",
        ),
    }
    enforcement.record(Measure::PidNamespace, State::Enforced, "pid namespace");
    enforcement.record(Measure::IpcNamespace, State::Enforced, "ipc namespace");
    enforcement.record(Measure::CgroupNamespace, State::Enforced, "cgroup namespace");
    match rustix::system::sethostname(spec.hostname.as_bytes()) {
        Ok(()) => enforcement.record(Measure::UtsNamespace, State::Enforced, "uts namespace"),
        Err(error) => {
            let detail = format!("uts namespace; the host name could not be set: {error}");
            enforcement.record(Measure::UtsNamespace, State::Degraded, detail);
        }
    }
    match spec.network {
        Network::Off => match loopback::up() {
            Ok(()) => {
                enforcement.record(Measure::Network, State::Enforced, "network namespace with loopback alone")
            }
            Err(error) => {
                let detail = format!("network namespace; loopback could not be brought up: {error}");
                enforcement.record(Measure::Network, State::Degraded, detail);
            }
        },
        Network::Host => {
            enforcement.record(Measure::Network, State::Enforced, "the host's network, as specified")
        }
        Network::Namespace => {
            enforcement.record(Measure::Network, State::Enforced, "the given network namespace")
        }
    }
}

pub(super) fn failed(step: &str, error: Errno) -> Failure {
    Failure::SetUp { step: step.to_owned(), error: error.raw_os_error() }
}
