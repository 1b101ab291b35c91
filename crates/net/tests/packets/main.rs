//! The router on real packets.

mod datagrams;
mod hostile;
mod neighbours;
mod reach;
mod resolver;
mod support;
mod tcp;
