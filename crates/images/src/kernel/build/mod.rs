//! A guest kernel of our own: small, with everything built in, made from the distribution's source package.
//!
//! ```text
//! tools, space ──> source package ──> unpacked ──> configured ──> compiled ──> staged: somebody boots it
//!                  └────────── kept under its key until a kernel of it is in use ────────┘   │ accepted
//!                                                                                            └──> in use
//! ```

mod candidate;
mod error;
mod group;
mod place;
mod settings;
mod source;
mod stages;
mod toolchain;

pub use candidate::Candidate;
pub use error::BuildError;
pub use place::{Unfinished, unfinished};
pub use stages::{BuildRequest, Outcome, build};
