//! Waking a machine: who it is first, then its hooks, then everything else.

use agentiso_proto::{Response, Wake};

use crate::{
    agent::Agent,
    configure::{self, Frozen},
    error::Outcome,
    hooks,
    sync::locked,
};

/// Makes the machine itself and lets it go on. If that fails, a machine that was held stays so.
pub(crate) fn wake(agent: &Agent, wake: &Wake) -> Outcome<Response> {
    let machine = agent.machine()?;
    let mut hold = locked(&machine.hold);
    configure::become_itself(machine, &wake.identity, wake.boot_id, Frozen::Thawed)?;
    let hooks = hooks::run(agent, machine, wake);
    hold.end(machine);
    Ok(Response::Woken { hooks })
}
