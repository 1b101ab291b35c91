//! Stand-ins for the outside world, and installations for tests that want the real one.

#![expect(clippy::expect_used, reason = "a fixture that cannot be made ends the test that wanted it")]

mod config;
pub mod disk_view;
pub mod disks;
mod fail_at;
pub mod fake;
mod faults;
pub mod guest;
mod home;
pub mod hosts;
pub mod internet;
pub mod links;
mod pace;
mod seed;
mod xfs;

pub use fail_at::FailAt;
pub use faults::Dice;
pub use home::TestHome;
pub use pace::pace;
pub use seed::seeded;
pub use xfs::TestXfs;
