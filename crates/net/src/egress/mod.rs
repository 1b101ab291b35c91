//! The egress proxy: what happens to the TCP connections of a workspace whose rules say `egress: proxy`.
//!
//! ```text
//!  guest ──► first bytes ──► TLS: server name ──► resolved to this address, and allowed? ──► passed on untouched
//!                 │                                     │                        └─ a secret or request rule needs it:
//!                 │                                     ▼ no                        decrypted, each request checked
//!                 │                              TLS alert, logged
//!                 ├──► HTTP: each request: host, method, path, placeholders ──► sent on, or answered with 403
//!                 └──► anything else: reset, unless the address is in `allow_cidrs`
//! ```
//!
//! A connection that is passed on costs nothing more than one without the proxy. One that is decrypted has a connection
//! of its own to the server, with the same version of HTTP on both sides, so nothing has to be translated.

mod answer;
mod authority;
mod body;
mod exchange;
mod gate;
mod hello;
mod placeholders;
mod serve;
mod setup;
mod sniff;
mod stream;
mod upstream;

pub use authority::{AuthorityError, create_authority};
pub use hello::{ClientHello, Hello, parse_client_hello};
pub use setup::{AuthorityKey, GrantedSecret, ProxySetup, SetupError, check_secret};
pub use sniff::{MAX_FIRST, Sniffed, sniff};
pub use upstream::Roots;

pub(crate) use gate::{Gate, needs_interception};
pub(crate) use setup::Proxy;
pub(crate) use stream::ProxyStream;
pub(crate) use upstream::Trust;
