//! `agentiso snapshot`.

mod create;
mod diff;
mod ls;
mod restore;
mod rm;
mod verbs;

use self::create::create;
use self::diff::diff;
use self::ls::ls;
use self::restore::restore;
use self::rm::rm;
pub use self::verbs::snapshot;
