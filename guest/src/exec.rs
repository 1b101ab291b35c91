//! Runs a command on a stream: prepares, starts and supervises it, and reports its exit.

use std::{sync::Arc, time::Instant};

use agentiso_proto::{Channel, Exec, Exit, ExitStatus, Kind, Response};
use rustix::process::Pid;

use crate::{
    agent::Agent,
    bell::{Bell, Wakeable},
    command,
    command_io::CommandIo,
    detach::Detachable,
    environment::Variables,
    error::Outcome,
    frames::Scratch,
    groups::{Group, Groups},
    hold,
    identity::{self, Identity},
    running::Place,
    session::Streams,
    spawn::{self, ChildStack},
    stdio,
    stream::Stream,
    supervise::{self, Supervised},
};

/// Runs a command to completion on behalf of a stream.
pub(crate) fn run(
    agent: &Arc<Agent>,
    streams: &Arc<Streams>,
    stream: &Arc<Stream>,
    exec: &Exec,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    hold::refuse_if_held(agent)?;
    let bell = Arc::new(Bell::new()?);
    stream.wake_through(Some(Arc::clone(&bell) as Arc<dyn Wakeable>));
    let io = Arc::new(Detachable::new(agent, streams, stream, exec, &bell));
    let result = attend(agent, stream, &io, exec, &bell, scratch);
    // Drop the bell before the host learns of the exit, so that an exited command holds no descriptor.
    stream.wake_through(None);
    result
}

fn attend(
    agent: &Agent,
    stream: &Stream,
    io: &Arc<Detachable>,
    exec: &Exec,
    bell: &Bell,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    let place = agent.running.enter(Arc::clone(io) as Arc<dyn CommandIo>);
    // A session that ends later finds the command in the table; check for one that ended earlier.
    stream.check()?;
    if !exec.stdin {
        stream.finish_input();
    }
    let started = |pid: Pid| {
        // If the session has ended, the supervisor notices it on the stream.
        let _ = stream.respond(&Response::Started { pid: pid.as_raw_nonzero().get().cast_unsigned() });
    };
    let result = carry_out(agent, exec, &place, &**io, bell, scratch, started);
    // If the command became a job, its stream has already had its final response.
    io.ended(result.as_ref().ok().copied());
    let exit = result?;
    for channel in [Channel::Stdout, Channel::Stderr] {
        stream.append(Kind::Eof, channel, &[], &mut scratch.tail);
    }
    Ok(Response::Exited(exit))
}

/// Starts a command, calls `started`, and supervises it until it exits.
pub(crate) fn carry_out(
    agent: &Agent,
    exec: &Exec,
    place: &Place<'_>,
    io: &dyn CommandIo,
    bell: &Bell,
    scratch: &mut Scratch,
    started: impl FnOnce(Pid),
) -> Outcome<Exit> {
    let marker = place.marker();
    let begun = Instant::now();
    let group = agent.groups().map(Groups::for_command).transpose()?;
    let variables = agent.environment.variables();
    let (child, ours) = start(exec, &variables, &marker, group.as_ref(), &mut scratch.stack)?;
    drop(variables);
    started(child.pid);
    let supervised = Supervised {
        child,
        ours,
        bell,
        marker: &marker,
        group: group.as_ref(),
        started: begun,
        deadline: supervise::deadline(begun, exec.timeout_ms),
    };
    let exit = supervise::until_exit(io, supervised, scratch)?;
    // In a cgroup that was killed once, some kernels kill new processes immediately, so do not reuse it.
    let was_killed = exit.timed_out || exit.cancelled || exit.status == ExitStatus::Signal(libc::SIGKILL);
    scratch.group = group.map(|group| if was_killed { group } else { group.reusable() });
    Ok(exit)
}

fn start(
    exec: &Exec,
    variables: &Variables,
    marker: &str,
    group: Option<&Group>,
    stack: &mut ChildStack,
) -> Outcome<(spawn::Child, stdio::Ours)> {
    let identity = identity::find(exec.user.as_ref())?;
    let user = exec.user.as_ref().map(|_| &identity).filter(|user| !is_agent(user));
    let command = command::prepare(exec, variables, &identity, marker)?;
    let (ours, theirs) = match exec.tty {
        Some(size) => stdio::terminal(size, user)?,
        None => stdio::pipes(exec.stdin, user)?,
    };
    let group = group.map(Group::open).transpose()?;
    let child = spawn::spawn(&command, user, &theirs, exec.tty.is_some(), group.as_ref(), stack)?;
    Ok((child, ours))
}

/// Whether the agent already runs as this user. Never true for root, whose groups are always set from the guest's
/// files.
fn is_agent(user: &Identity) -> bool {
    let uid = rustix::process::geteuid();
    !uid.is_root() && uid.as_raw() == user.uid && rustix::process::getegid().as_raw() == user.gid
}
