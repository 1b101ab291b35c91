//! Wakes a restored or forked machine: applies its identity, runs its hooks, then releases its processes.

use agentiso_proto::{Response, Wake};

use crate::{
    agent::Agent,
    configure::{self, Frozen},
    error::Outcome,
    hooks,
    sync::locked,
};

/// Handles [`Wake`]. On failure a held machine stays held.
pub(crate) fn wake(agent: &Agent, wake: &Wake) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    configure::become_itself(machine, &wake.identity, wake.boot_id, Frozen::Thawed)?;
    let hooks = hooks::run(agent, machine, wake);
    hold.end(machine);
    Ok(Response::Woken { hooks })
}
