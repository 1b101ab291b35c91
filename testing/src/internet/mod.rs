//! A small internet made of network namespaces, for tests of the network. Needs root and the program `ip`.
//!
//! ```text
//!  namespace "host"                      namespace "internet"
//!  the daemon or router under test       web (80, 443), git, packages, DNS (53), DNS over TLS (853), UDP echo (7), ping
//!  198.41.0.1 ───────── veth ─────────── 198.41.0.2, and on its loopback every address of `places`
//!  services that no guest may reach
//! ```
//!
//! The namespaces have no other link, so no packet leaves the machine, whatever address it is sent to. They have no name
//! and end with the process that made them, also when it is killed.

mod arrivals;
mod certificates;
mod datagrams;
mod git;
mod names;
mod namespace;
mod network;
mod packages;
pub mod places;
pub mod table;
mod web;

pub use arrivals::{Arrivals, Request, Seen};
pub use namespace::{Namespace, Running};
pub use network::Internet;
