//! The network of workspaces: what they may reach, what they reached, and what they ask to reach.

mod advice;
mod asking;
mod log;
mod packages;
mod refusals;
mod rules;
mod summary;

pub(crate) use advice::is_about_network;
pub(crate) use refusals::Refusals;
pub(crate) use summary::Summaries;
