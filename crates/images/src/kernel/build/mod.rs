//! Building a guest kernel: small, with everything built in, from the distribution's source package.
//!
//! ```text
//! tools, space ──> source package ──> unpacked ──> configured ──> compiled ──> staged: the caller boots it
//!                  └──────────── kept under its key until the kernel is selected ────────┘   │ accepted
//!                                                                                            └──> selected
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
