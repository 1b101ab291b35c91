//! `avfs`: vaults, and commands in them. It needs no daemon.

mod answer;
mod checkpoint;
mod cli;
mod completions;
mod context;
mod directory;
mod dispatch;
mod files;
mod history;
mod host;
mod inbox;
mod man;
mod policy;
mod proxy;
pub mod schemas;
mod session;
mod shell;
mod shown;
mod upkeep;
mod vault;

pub use cli::Cli;
pub use dispatch::{explain_in as explain, main, proxy_in as proxy, refused_exec};
pub use policy::{Explain, WORKSPACE};
pub use proxy::ProxyVerb;
