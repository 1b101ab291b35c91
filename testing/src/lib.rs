//! Stand-ins for the outside world, and installations for tests that want the real one.

#![expect(clippy::expect_used, reason = "a fixture that cannot be made ends the test that wanted it")]

pub mod disks;
pub mod guest;
mod home;

pub use home::TestHome;
