//! Workspaces as a whole: their lifecycle, copies, settings and views.

mod archive;
mod create;
mod fork;
mod lifecycle;
mod settings;
mod snapshots;
mod status;
mod suspend;

pub(super) use create::refuse_internet;
pub(crate) use suspend::{is_last_moment, refuse_last_moment};
