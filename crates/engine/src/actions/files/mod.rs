//! Files of a workspace.

mod read;
mod search;
mod write;

pub(crate) use write::about_path;
pub(super) use write::absolute;
