//! Vaults as a whole.

mod create;
mod fork;
mod lineage;
mod remove;
mod settings;
mod show;

pub(crate) use create::fresh_meta;
pub(crate) use remove::live_uses;
