//! Templates: saved states of booted, idle guests, which every start clones.
//!
//! There are two tiers, both in directories `templates/<key>/`:
//!
//! * **base**: the agent answers, no disk is mounted. Shared by all images with the same hardware.
//! * **warm**: a clone of a base with one image's root mounted and some commands run. Includes the disk layer that
//!   belongs to its memory; a clone's disk is a layer on top of it.
//!
//! ```text
//!   needed ──► exists, stamps match ──────────────────────────► use
//!      │             │ stamps differ, or the host rebooted
//!      │             ▼
//!      │        contents hashed ── same ──► new stamps ───────► use
//!      │             │ damaged: removed
//!      ▼             ▼
//!   made in `.key.partial` under a lock ── a clone of it answers ──► renamed ──► use
//! ```
//!
//! If making a template fails or its process is killed, only a partial directory is left, which the next process that
//! makes a template removes.

mod content;
mod key;
mod make;
mod manifest;
mod store;

pub use key::{base_key, restore_key, warm_key};
pub use make::{ImageDisk, make_base, make_warm};
pub use store::{Template, Templates, Verified};
