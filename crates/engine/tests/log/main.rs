//! What the engine does around an action: the ruling on commands, the timeline, and events. Over a fake host and real
//! records.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

mod entries;
mod events;
mod faults;
mod lab;
mod rulings;
