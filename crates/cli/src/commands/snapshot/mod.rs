//! Snapshots: taking, listing, restoring, removing.

mod create;
mod ls;
mod restore;
mod rm;
mod tree;

pub use self::create::create;
pub use self::ls::ls;
pub use self::restore::restore;
pub use self::rm::rm;
