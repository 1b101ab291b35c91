//! What can be asked of agentiso, and what it answers.
//!
//! A tool of an agent, a route of the REST API and a verb of the command line all build the same action and get the
//! same outcome. The types are the documentation: what is written here is what every schema says.

mod about;
mod adopt;
mod archive;
mod exec;
mod files;
mod fork;
mod git;
mod grant;
mod images;
mod network;
mod session;
mod settings;
mod snapshots;
mod stats;
mod subject;
mod values;
mod workspace;

pub use about::{About, Action, Effect, Outcome, Rate};
pub use adopt::*;
pub use archive::*;
pub use exec::*;
pub use files::*;
pub use fork::*;
pub use git::*;
pub use grant::*;
pub use images::*;
pub use network::*;
pub use session::*;
pub use settings::*;
pub use snapshots::*;
pub use stats::*;
pub use subject::Subject;
pub use values::*;
pub use workspace::*;
