//! Holds the machine's processes while its memory is copied.
//!
//! The hold is part of the copied memory, so no user process runs in a copy until the host has given that copy its own
//! identity. A hold does not outlive a host that disconnects: the next session ends it, or else a timer does. Only a
//! session that announces a restored machine keeps it.
//!
//! Commands that were running continue afterwards, in the original and in every copy. In a copy no host is connected to
//! them: their supervisors see that the session has ended, discard the output and close the input. Their timeouts count
//! the machine's own monotonic time, which does not include the pause. Jobs belong to no session, so every copy has
//! them, including their output.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use agentiso_proto::Response;
use rustix::io::Errno;

use crate::{
    agent::{Agent, Machine},
    error::{During, Outcome, busy, invalid, refused, unsupported},
    filesystem,
    groups::Groups,
    log::log,
    stream::Stream,
    sync::locked,
};

/// How long processes may take to freeze. A process in uninterruptible I/O does not freeze until the device responds.
const STANDSTILL_LIMIT: Duration = Duration::from_secs(2);
/// How long a hold or freeze lasts without a host. A machine that was just restored may have none for a moment.
const GRACE: Duration = Duration::from_secs(5);

/// State of the hold.
#[derive(Default)]
pub(crate) struct Hold {
    /// The cgroups that the hold froze.
    stopped: Option<Vec<String>>,
    /// The machine was restored while held and has not been woken since.
    restored: bool,
    /// Number of the current session, so that the timer of a lost session does not affect a later one.
    session: u64,
}

/// Freezes every process but the agent. With `freeze_root` also freezes the root, which is then consistent on disk.
pub(crate) fn hold(agent: &Agent, stream: &Stream, freeze_root: bool) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    // A session that ends later waits for the lock and then finds the hold.
    stream.check()?;
    if hold.stopped.is_some() {
        return Err(invalid("the machine is already held"));
    }
    let groups = machine.groups.as_ref().ok_or_else(|| unsupported("this kernel has no cgroups"))?;
    if freeze_root {
        // Flush most of the data while the processes still run.
        filesystem::flush(machine)?;
    }
    let stopped = stop_all(groups)?;
    if freeze_root && let Err(error) = filesystem::freeze(machine) {
        let_go(groups, &stopped);
        return Err(error);
    }
    hold.stopped = Some(stopped);
    Ok(Response::Done)
}

/// Freezes the root while processes keep running.
pub(crate) fn freeze(agent: &Agent, stream: &Stream) -> Outcome<Response> {
    let machine = agent.machine()?;
    let _hold = locked(&machine.hold);
    // As in `hold`.
    stream.check()?;
    filesystem::freeze(machine).map(|()| Response::Done)
}

/// Ends a hold, and the freeze of the root that came with it.
pub(crate) fn release(agent: &Agent) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    if hold.stopped.is_none() {
        return Err(invalid("the machine is not held"));
    }
    hold.end(machine);
    Ok(Response::Done)
}

/// Rejects requests that would start or change something while the machine is held.
pub(crate) fn refuse_if_held(agent: &Agent) -> Outcome<()> {
    match agent.machine() {
        Ok(machine) if locked(&machine.hold).stopped.is_some() => {
            Err(busy("the machine is held for a copy of its memory; retry when it has been released"))
        }
        _ => Ok(()),
    }
}

/// Ends the hold or freeze of an earlier session. Called when a new session begins.
pub(crate) fn end_forgotten(agent: &Agent) {
    let Ok(machine) = agent.machine() else { return };
    let mut hold = locked(&machine.hold);
    hold.session += 1;
    hold.end(machine);
}

/// Keeps the hold. Called when a session begins on a machine that was restored.
pub(crate) fn keep(agent: &Agent) {
    let Ok(machine) = agent.machine() else { return };
    let mut hold = locked(&machine.hold);
    hold.session += 1;
    hold.restored |= hold.stopped.is_some();
}

/// Called when a session has ended. If no other begins within [`GRACE`], ends its hold or freeze. A machine that was
/// restored but not woken stays held: it has no identity of its own until a host gives it one.
pub(crate) fn end_later(agent: &Arc<Agent>) {
    let Ok(machine) = agent.machine() else { return };
    let hold = locked(&machine.hold);
    let held = hold.stopped.is_some() && !hold.restored;
    if !held && !locked(&machine.root).frozen {
        return;
    }
    let (agent, lost) = (Arc::clone(agent), hold.session);
    drop(hold);
    let waiting = thread::Builder::new().name("release".to_owned()).spawn(move || {
        thread::sleep(GRACE);
        let Ok(machine) = agent.machine() else { return };
        let mut hold = locked(&machine.hold);
        if hold.session == lost && !hold.restored {
            hold.end(machine);
        }
    });
    if let Err(error) = waiting {
        log(&format!(
            "cannot start the timer that ends the hold, so only a new session will end it: {error}"
        ));
    }
}

impl Hold {
    /// Thaws everything that a hold or freeze stopped.
    pub(crate) fn end(&mut self, machine: &Machine) {
        filesystem::thaw_forgotten(machine);
        self.restored = false;
        if let (Some(groups), Some(stopped)) = (&machine.groups, self.stopped.take()) {
            let_go(groups, &stopped);
        }
    }
}

/// Freezes all cgroups that are not frozen yet, including those created meanwhile. On failure thaws them again.
fn stop_all(groups: &Groups) -> Outcome<Vec<String>> {
    let mut stopped = Vec::new();
    let result = stop_each(groups, &mut stopped);
    if result.is_err() {
        let_go(groups, &stopped);
    }
    result.map(|()| stopped)
}

fn stop_each(groups: &Groups, stopped: &mut Vec<String>) -> Outcome<()> {
    let deadline = Instant::now() + STANDSTILL_LIMIT;
    let stopping = || "stopping the machine's processes";
    let mut known: Vec<String> = Vec::new();
    loop {
        let mut fresh = groups.topmost().during(stopping)?;
        fresh.retain(|group| !known.contains(group));
        if fresh.is_empty() {
            return Ok(());
        }
        for group in &fresh {
            // Leave alone what the user has frozen. A cgroup that was removed meanwhile needs no freezing.
            if groups.is_stopped(group) == Ok(false) && groups.stop(group, true).is_ok() {
                stopped.push(group.clone());
            }
        }
        for group in &fresh {
            match groups.wait_for_standstill(group, deadline) {
                Ok(true) | Err(Errno::NOENT | Errno::NODEV) => {}
                Ok(false) => {
                    return Err(busy(format!(
                        "some processes did not freeze within {} s; they are waiting for a device or for a frozen file system",
                        STANDSTILL_LIMIT.as_secs()
                    )));
                }
                Err(errno) => return Err(refused(stopping(), errno)),
            }
        }
        known.append(&mut fresh);
    }
}

fn let_go(groups: &Groups, stopped: &[String]) {
    for group in stopped {
        if let Err(errno) = groups.stop(group, false) {
            log(&format!("cannot thaw cgroup {group}: {errno}"));
        }
    }
}
