//! The workspaces of an installation as the host port of the engine.

mod archives;
mod images;
mod network;
mod secrets;
mod settings;
mod workspaces;
