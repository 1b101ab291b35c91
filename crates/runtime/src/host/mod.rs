//! The workspaces of an installation as the host port of the engine.

mod archives;
mod images;
mod network;
mod packages;
mod settings;
mod workspaces;

pub use packages::HostPackages;
