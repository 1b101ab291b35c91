//! Reads the monotonic clock and sets the wall clock.

use agentiso_proto::Response;
use rustix::time::{ClockId, Timespec};

use crate::agent::Agent;
use crate::error::{During, Outcome};

const NANOS: u64 = 1_000_000_000;

/// The monotonic clock, in nanoseconds.
pub(crate) fn steady() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * NANOS + time.tv_nsec.cast_unsigned()
}

/// Sets the wall clock, in nanoseconds since the epoch.
pub(crate) fn set(nanos: u64) -> Outcome<()> {
    let time = Timespec { tv_sec: (nanos / NANOS).cast_signed(), tv_nsec: (nanos % NANOS).cast_signed() };
    rustix::time::clock_settime(ClockId::Realtime, time).during(|| "setting the clock")
}

/// Sets the wall clock to the monotonic clock plus `ahead` nanoseconds.
pub(crate) fn set_ahead(agent: &Agent, ahead: u64) -> Outcome<Response> {
    agent.machine()?;
    set(steady().saturating_add(ahead))?;
    Ok(Response::Done)
}
