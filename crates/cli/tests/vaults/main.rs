//! `avfs` as programs and people use it: vaults, files, commands in the sandbox. Every JSON value that it prints is checked
//! against the published schemas.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod approvals;
mod files;
mod history;
mod host;
mod hostile;
mod outcomes;
mod parallel;
mod pattern;
mod place;
mod policies;
mod python;
mod regressions;
mod renames;
mod runs;
mod schema;
mod schemas;
mod sessions;
mod shell;
mod upkeep;
mod vault;
