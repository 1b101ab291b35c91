//! Workspaces as a whole: their lifecycle, copies, settings and views.

mod archive;
mod create;
mod fork;
mod lifecycle;
mod settings;
mod snapshots;
mod status;
mod suspend;

pub(crate) use create::{Lifetime, Make};
pub(crate) use suspend::refuse_suspend_snapshot;
