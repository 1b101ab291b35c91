//! The back end `bridge`: TAP devices on a bridge in a network namespace of our own, and the kernel's packet filter.
//!
//! ```text
//!            namespace of our own, without a name                              │ the host's network
//!  guest ── TAP ── isolated port ── bridge ── filter ── address translation ── pasta ── sockets of the host
//!                                     └─ resolver on the gateway's address ────────── the host's resolvers
//! ```
//!
//! It needs root, `/dev/net/tun`, `nft` and `pasta`, and touches nothing of the host's firewall, routes or settings.
//! The filter decides like `agentiso_policy`; the log is written from what the filter reports. Routes are only found by
//! packets that the filter has marked, so nothing is forwarded while the filter is missing.

mod backend;
mod client;
mod conntrack;
mod error;
mod events;
mod links;
mod namespace;
mod netlink;
mod nft;
mod pasta;
mod requirements;
mod resolver;
mod rules;
mod state;
mod tap;
mod watch;

pub use backend::Bridge;
pub use error::BridgeError;
pub use requirements::{Missing, check, missing};
