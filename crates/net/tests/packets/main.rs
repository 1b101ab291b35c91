//! The router on real packets.
#![expect(clippy::unwrap_used, reason = "a network that cannot be set up fails the test")]

mod asking;
mod control;
mod datagrams;
mod hostile;
mod neighbours;
mod reach;
mod resolver;
#[expect(dead_code, reason = "the tests on namespaces use the rest")]
mod support;
mod tcp;
