//! Memory images of booted, idle guests. Every start clones one.
//!
//! Two tiers, both directories `templates/<key>/`:
//!
//! * **base**: the agent answers, no disk is mounted. One serves every image of that hardware.
//! * **warm**: a base clone with one image's root mounted and its first commands run. Carries the disk layer that
//!   belongs to that memory; a clone's disk is a layer on top of it.
//!
//! ```text
//!   wanted ──► present, stamp fits ───────────────────────────► use
//!      │             │ stamp differs, or the host rebooted
//!      │             ▼
//!      │        contents hashed ── same ──► new stamp ────────► use
//!      │             │ damaged: removed
//!      ▼             ▼
//!   made in `.key.partial` under a lock ── a clone of it answers ──► renamed ──► use
//! ```
//!
//! A template whose making fails, or whose maker is killed, leaves only a partial directory that the next maker of
//! anything sweeps away.

mod content;
mod key;
mod make;
mod manifest;
mod store;

pub use key::{base_key, restore_key, warm_key};
pub use make::{ImageDisk, make_base, make_warm};
pub use store::{Template, Templates, Verified};
