//! The helper process: makes the namespaces and leaves.

use std::env;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::identity::{Caller, Maps};
use super::init::{self, Sandbox};
use super::step::{Step, StepFailed};
use crate::kernel::process::{close_from, exit_now, fork_with};
use crate::spec::Network;
use crate::wire::{Failure, Mode, Report, Start, receive, send};

/// What the helper is called: its only argument.
pub(crate) const HELPER_NAME: &str = "agentiso-jail-helper";

/// Becomes the helper if this process was started as one, and returns at once otherwise. Call it first in `main`, before
/// there is a second thread.
pub fn run_helper_if_requested() {
    let mut arguments = env::args_os();
    if arguments.next().is_some_and(|name| name == HELPER_NAME) && arguments.next().is_none() {
        exit_now(i32::from(help().is_none()));
    }
}

/// `None` if there was nobody to report to.
fn help() -> Option<()> {
    let channel = take_channel().ok()?;
    let (start, fds) = receive::<Start>(&channel).ok()??;
    if let Err(failure) = launch(start, fds, &channel) {
        send(&channel, &Report::Failed(failure), &[]).ok()?;
    }
    Some(())
}

/// Moves the channel away from standard input. Nothing else that was open stays open.
fn take_channel() -> Result<OwnedFd, Errno> {
    close_from(3)?;
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
    Ok(channel)
}

fn launch(start: Start, fds: Vec<OwnedFd>, channel: &OwnedFd) -> Result<(), Failure> {
    let mut fds = fds.into_iter();
    let mut next = || {
        fds.next().ok_or(Failure::SetUp { step: "receive the descriptors".to_owned(), error: libc::EBADF })
    };
    let stdio = match &start.command {
        Some(_) => Some([next()?, next()?, next()?]),
        None => None,
    };
    let network = if start.has_network { Some(next()?) } else { None };
    let network_user = if start.has_network_user { Some(next()?) } else { None };
    drop(fds);
    for group in &start.join {
        std::fs::write(group, "0").map_err(|error| Failure::SetUp {
            step: format!("join the cgroup {}", group.display()),
            error: error.raw_os_error().unwrap_or(libc::EIO),
        })?;
    }
    let caller = Caller::of_this_process();
    enter_network(network_user, network)?;
    let mode = start.mode;
    let as_root = caller.is_root();
    let sandbox = |channel| Sandbox { start, stdio, channel, as_root };
    match mode {
        Mode::Plain => {
            report_clone(channel, getpid())?;
            init::run_plain(sandbox(channel.try_clone().map_err(|_| lost())?));
            Ok(())
        }
        Mode::Namespaces | Mode::NoUserNamespace => clone(sandbox, mode, caller, channel),
    }
}

/// Enters the network namespace that the caller gave, through the user namespace that owns it.
fn enter_network(user: Option<OwnedFd>, network: Option<OwnedFd>) -> Result<(), StepFailed> {
    if let Some(user) = user {
        let kind = Some(LinkNameSpaceType::User);
        move_into_link_name_space(user.as_fd(), kind)
            .step(|| "enter the network's user namespace".to_owned())?;
    }
    if let Some(network) = network {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(network.as_fd(), kind).step(|| "enter the network namespace".to_owned())?;
    }
    Ok(())
}

fn clone(
    sandbox: impl FnOnce(OwnedFd) -> Sandbox,
    mode: Mode,
    caller: Caller,
    channel: &OwnedFd,
) -> Result<(), Failure> {
    let sandbox = sandbox(channel.try_clone().map_err(|_| lost())?);
    let spec = &sandbox.start.spec;
    let maps = match mode {
        Mode::Namespaces => Some(Maps::plan(spec.user, caller).map_err(|error| Failure::SetUp {
            step: "read the user maps".to_owned(),
            error: error.raw_os_error().unwrap_or(libc::EIO),
        })?),
        _ => None,
    };
    let (release, released) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map(|(read, write)| (write, read))
        .step(|| "make a pipe".to_owned())?;
    let mut flags = libc::CLONE_PARENT
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    if maps.is_some() {
        flags |= libc::CLONE_NEWUSER;
    }
    if spec.network == Network::Off {
        flags |= libc::CLONE_NEWNET;
    }
    // SAFETY: the helper has one thread.
    let child = unsafe { fork_with(flags) }.first_step("make namespaces")?;
    let Some(pid) = child else {
        drop(release);
        let mut byte = [0];
        // Without the byte the helper has failed, and has said so.
        let is_released = matches!(rustix::io::read(&released, &mut byte), Ok(1));
        if is_released {
            drop(released);
            init::run(sandbox);
        }
        exit_now(1);
    };
    report_clone(channel, pid)?;
    if let Some(maps) = maps {
        maps.write(pid).first_step("map its users")?;
    }
    rustix::io::write(&release, &[1]).map(drop).step(|| "start its init".to_owned())?;
    Ok(())
}

fn report_clone(channel: &OwnedFd, pid: Pid) -> Result<(), Failure> {
    send(channel, &Report::Cloned { pid: pid.as_raw_nonzero().get() }, &[]).map_err(|_| lost())
}

/// The caller has gone; nobody will read this.
fn lost() -> Failure {
    Failure::SetUp { step: "answer the caller".to_owned(), error: libc::EPIPE }
}
