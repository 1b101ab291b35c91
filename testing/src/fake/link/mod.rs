//! The link into a fake machine.

mod calls;
mod connections;
mod files;
mod processes;
mod search;
mod trees;

pub(super) use calls::FakeLink;
