//! Reads the files of a state.

mod find;
mod grep;
mod read;
mod resolve;
mod stat;
mod view;

pub use find::{FindQuery, Found};
pub use grep::{GrepMatch, GrepQuery, Grepped};
pub use read::FileBytes;
pub use stat::{Stat, TreeNode};
pub use view::View;

pub(crate) use resolve::{Resolver, resolve};
pub(crate) use stat::stat_node;
