//! Stand-ins for the outside world, and installations for tests that want the real one.

#![expect(clippy::expect_used, reason = "a fixture that cannot be made ends the test that wanted it")]

mod config;
pub mod disk_view;
pub mod disks;
mod faults;
pub mod guest;
mod home;
mod pace;
mod xfs;

pub use faults::Dice;
pub use home::TestHome;
pub use pace::pace;
pub use xfs::TestXfs;
