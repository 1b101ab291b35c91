//! Workspaces: making, looking, starting, stopping, removing.

mod create;
mod power;
mod rm;
mod show;

pub use self::create::create;
pub use self::power::{start, stop};
pub use self::rm::rm;
pub use self::show::{info, ls};
