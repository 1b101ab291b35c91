//! The command line: flags in, requests out, results on the screen.

pub mod args;
pub mod avfs;
pub mod commands;
mod completions;
mod daemon;
mod dispatch;
mod misread;
mod output;
mod terminal;
pub mod ui;

pub use dispatch::main;
