//! Stand-ins for the outside world, for tests.

pub mod guest;
