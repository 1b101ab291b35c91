//! Stand-ins for the outside world, and installations for tests that want the real one.

pub mod disks;
pub mod guest;
mod home;

pub use home::TestHome;
