//! Fakes of the ports under the engine: a host of workspaces in memory, links into its machines, and a clock.
//!
//! The records are real ones, in a temporary file. Every call can be told to fail or to hang.

mod answers;
mod clock;
mod faults;
mod host;
mod link;
mod machine;
mod memory;
mod network;
mod packages;
mod programs;
mod records;
mod script;
mod settings;
mod shell;
mod tree;

pub use answers::Answer;
pub use clock::FakeClock;
pub use faults::{Faults, Hang};
pub use host::{FakeHost, HostCall};
pub use machine::LinkCall;
pub use network::{FakeNetwork, NetworkCall};
pub use packages::FakePackages;
pub use records::TestRecords;
pub use settings::engine_settings;
