//! Garbage collection, concurrent with readers and writers of any process.
//!
//! ```text
//! gc locks ──► [commit lock: list packs and leases, remove leftovers]
//!         ──► ask the caller for its roots ──► mark ──► copy live objects of wasteful packs
//!         ──► [commit lock: list leases again, mark and copy what is new, publish, remove the old packs]
//! ```
//!
//! Why nothing is lost: a session that ends before the first listing has recorded its roots where the caller's roots are
//! read from. One that is alive then, or begins later, has a lease that the second listing sees, even if it has ended
//! meanwhile. One that has not committed by the second listing keeps the packs open that it relies on, and copies from
//! them when it commits. Old packs are removed after the new ones are on disk.

mod collect;
mod leftovers;
mod mark;
mod replace;
mod tidy;

pub use collect::{Garbage, GcOptions, GcReport, collect, garbage};
pub use tidy::tidy;
