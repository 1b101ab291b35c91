//! The router on real packets.

mod support;
mod tcp;
