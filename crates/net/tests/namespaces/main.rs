//! The network on a test internet of namespaces (`agentiso_testing::internet`), without virtual machines: a guest is a
//! TCP/IP stack of the test. Needs root.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a network that cannot be set up fails the test"
)]

mod attempts;
mod bridged;
mod hostile;
mod repair;
mod sockets;
#[path = "../packets/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other tests use the rest")]
mod support;
mod table;
