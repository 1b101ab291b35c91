//! The rules of the engine, without a machine: over a fake host, real records and a clock that stands still.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

mod actions;
mod adoption;
mod approvals;
mod commands;
mod faults;
mod forwards;
mod idempotency;
mod images;
mod lifecycle;
mod network;
mod network_asking;
mod ownership;
mod quotas;
mod rates;
mod sessions;
mod timeline;
mod upkeep;
mod variables;
mod world;
