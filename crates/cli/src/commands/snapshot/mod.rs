//! Snapshots: taking, listing, restoring, comparing, removing.

mod create;
mod diff;
mod ls;
mod restore;
mod rm;

pub use self::create::create;
pub use self::diff::diff;
pub use self::ls::ls;
pub use self::restore::restore;
pub use self::rm::rm;
