//! A directory served over FUSE: what an ordinary user gets from `mount`, because the kernel lets only root put an overlay
//! where other programs see it.
//!
//! ```text
//! program ──► kernel, which caches names, attributes and contents ──► this server ──► overlay in the server's own namespace
//! ```
//!
//! The overlay decides what every call does; the server only passes calls on, so it has no semantics of its own beyond
//! numbering files. Nobody else changes the overlay, so the kernel may cache for hours. Writes are passed on at once, so a
//! server that is killed loses nothing that a program has written, and a checkpoint sees it.
//!
//! FUSE passthrough needs `CAP_SYS_ADMIN` outside of user namespaces. Who has that mounts the overlay directly and needs
//! no server, so it is not used.

mod attributes;
mod content;
mod filesystem;
mod handles;
mod links;
mod mount;
mod names;
mod nodes;
mod server;

pub(crate) use server::{Serving, answers, serve};
