//! Kills the daemon and machines at random moments, sometimes with a full disk: no acknowledged change may be lost,
//! nothing may leak, and the next command must work.
//!
//! `AGENTISO_FAULT_SEED` repeats a run's choices (not the host's timing), `AGENTISO_FAULT_ROUNDS` sets its length.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test helpers may panic")]

mod command;
mod content;
mod full_disk;
mod leaks;
mod model;
mod plan;
mod rounds;
mod strike;

use agentiso_testing::TestHome;

use crate::rounds::{Limits, Run};

#[test]
fn killing_the_daemon_and_qemu_at_random_loses_nothing_and_leaks_nothing() {
    let home = TestHome::new();
    Run::new(home.path(), Limits::from_environment(40)).go();
}
