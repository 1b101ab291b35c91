//! One attached machine: its card, its open flows, and what is done with each of its frames.
//!
//! ```text
//!  guest ── card ──► parse ──► ARP ────────────► answered
//!                      │  ├──► gateway ────────► resolver (UDP and TCP 53), echo; all else refused
//!                      │  ├──► pool ───────────► neighbour's card, if both policies allow it
//!                      │  └──► anything else ──► verdict ──► host socket, one per flow
//!                      ▼
//!                   dropped, counted
//! ```
//!
//! A TCP connection is accepted only after the outgoing connection succeeded, so a refused connection is refused for the
//! guest too. Each flow is a task of its own. Memory is bounded: a flow's buffers have a fixed size, and the number of
//! flows is limited. Detaching a machine ends all its tasks.

mod asker;
mod asking;
mod echo;
mod flow;
mod neighbours;
mod receive;
mod stack;
mod state;
mod tcp;
mod udp;

pub(crate) use neighbours::Neighbours;
pub(crate) use state::Machine;
