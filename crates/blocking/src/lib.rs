//! Blocking work called from async code.
//!
//! A task that waits for the disk, a process or a lock keeps its worker thread, and every task queued on it, from
//! running. [`off_thread`] moves such work to the blocking threads of the runtime; [`in_place`] is for work that borrows
//! from its caller and so cannot be moved.

mod in_place;
mod off_thread;

pub use in_place::in_place;
pub use off_thread::off_thread;
