//! The resolver on the gateway's address.
//!
//! A name is checked against the policy before anything is asked; a refused one is answered REFUSED at once. Answers are
//! filtered (a public name must not lead to a closed address), and the addresses that remain are pinned to the name for
//! this workspace, which is what `allow_domains` goes by when the guest connects. IPv6 is off, so AAAA is answered empty.

mod answer;
mod asker;
mod cache;
mod names;
mod pins;
mod upstream;

pub use answer::parse_query;
pub(crate) use answer::{answer_datagram, serve_stream};
pub(crate) use asker::Asker;
pub(crate) use pins::Pins;
pub use upstream::Nameservers;
pub(crate) use upstream::Resolver;
