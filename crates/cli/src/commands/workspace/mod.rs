//! Workspaces: creating, listing, starting, stopping, removing.

mod archive;
mod create;
mod info;
mod labels;
mod ls;
mod power;
mod prune;
mod rm;
mod selection;
mod update;
mod verbs;

use self::archive::{export, import};
pub use self::create::create;
pub use self::info::info;
pub(super) use self::labels::labels_in_words;
pub use self::ls::ls;
pub use self::power::{resume, start, stop, suspend};
pub use self::prune::prune;
pub use self::rm::rm;
pub use self::update::update;
pub use self::verbs::workspace;
