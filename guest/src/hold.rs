//! Holding the machine still while its memory is copied.
//!
//! A copy of the memory has the agent's hold in it, so whatever becomes of the copy, nothing of its user's runs before
//! the host has made it a machine of its own. A hold never outlives a host that merely went away: the next session ends
//! it, or else time does. Only a session that says the machine was restored leaves it in place.
//!
//! Commands that ran at that moment go on afterwards, in the original and in every copy. In a copy nobody hears them:
//! their supervisors see that their session is over, discard the output and close the input, and their time limits
//! count the machine's own monotonic time, in which the pause took none. Jobs belong to no session: every copy has them
//! as they were, with what they wrote.

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

/// How long processes may take to stand still. Those that wait for a device cannot before it has answered.
const STANDSTILL_LIMIT: Duration = Duration::from_secs(2);
/// How long a hold or freeze lasts without a host. A machine that was just restored may be without one for a moment.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the machine is held.
#[derive(Default)]
pub(crate) struct Hold {
    /// The groups that stand still.
    stopped: Option<Vec<String>>,
    /// The machine was restored while held, and has not been woken since.
    restored: bool,
    /// Counts sessions: what was to be ended for one that was lost is not ended for a later one.
    session: u64,
}

/// Stops every process but the agent; with `root` the root too, which then is consistent on its disk.
pub(crate) fn hold(agent: &Agent, stream: &Stream, freeze_root: bool) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    // A session that ends from here on waits for the lock and then finds the hold.
    stream.check()?;
    if hold.stopped.is_some() {
        return Err(invalid("the machine is held already"));
    }
    let groups = machine.groups.as_ref().ok_or_else(|| unsupported("this kernel has no control groups"))?;
    if freeze_root {
        // Most of the work is done while everything still runs.
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

/// Holds writes to the root back while everything else goes on.
pub(crate) fn freeze(agent: &Agent, stream: &Stream) -> Outcome<Response> {
    let machine = agent.machine()?;
    let _hold = locked(&machine.hold);
    // As above.
    stream.check()?;
    filesystem::freeze(machine).map(|()| Response::Done)
}

/// Ends a hold, and a freeze of the root with it.
pub(crate) fn release(agent: &Agent) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    if hold.stopped.is_none() {
        return Err(invalid("the machine is not held"));
    }
    hold.end(machine);
    Ok(Response::Done)
}

/// Refuses what would start or change something that is to stand still.
pub(crate) fn refuse_if_held(agent: &Agent) -> Outcome<()> {
    match agent.machine() {
        Ok(machine) if locked(&machine.hold).stopped.is_some() => {
            Err(busy("the machine is held for a copy of its memory; commands run again when it is released"))
        }
        _ => Ok(()),
    }
}

/// A new session begins, to which an earlier one's hold or freeze means nothing.
pub(crate) fn end_forgotten(agent: &Agent) {
    let Ok(machine) = agent.machine() else { return };
    let mut hold = locked(&machine.hold);
    hold.session += 1;
    hold.end(machine);
}

/// A new session begins, on a machine that was restored as it is.
pub(crate) fn keep(agent: &Agent) {
    let Ok(machine) = agent.machine() else { return };
    let mut hold = locked(&machine.hold);
    hold.session += 1;
    hold.restored |= hold.stopped.is_some();
}

/// The session is over and no other has begun. If none does for a while, its hold or freeze ends; but a machine that
/// was restored and not woken has no identity of its own, and stays still for whoever comes to give it one.
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
        log(&format!("cannot wait for a host; it has to come to end the hold: {error}"));
    }
}

impl Hold {
    /// Lets everything go on that a hold or freeze stopped.
    pub(crate) fn end(&mut self, machine: &Machine) {
        filesystem::thaw_forgotten(machine);
        self.restored = false;
        if let (Some(groups), Some(stopped)) = (&machine.groups, self.stopped.take()) {
            let_go(groups, &stopped);
        }
    }
}

/// Stops all groups that are not stopped already, those included that appear meanwhile. On failure none is left so.
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
            // What its owner stopped stays stopped afterwards. One that has gone meanwhile needs no stopping.
            if groups.is_stopped(group) == Ok(false) && groups.stop(group, true).is_ok() {
                stopped.push(group.clone());
            }
        }
        for group in &fresh {
            match groups.wait_for_standstill(group, deadline) {
                Ok(true) | Err(Errno::NOENT | Errno::NODEV) => {}
                Ok(false) => {
                    return Err(busy(format!(
                        "some processes did not stand still within {} s; they wait for a device or a frozen root",
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
            log(&format!("cannot let the group {group} go on: {errno}"));
        }
    }
}
