//! `agentiso cp`: files and directories between here and workspaces.
//!
//! ```text
//!  here ─► workspace        one transfer of the daemon's per source
//!  workspace ─► here        the same
//!  workspace ─► workspace   two transfers, by way of a directory that only we can open and that is removed at the end
//!  - ─► workspace           standard input is kept in such a directory until its end, then transferred
//!  workspace ─► -           read in pieces
//! ```

mod side;
mod staging;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentiso_config::paths::Paths;
use agentiso_core::action::{Direction, Exec, FileStat, FileStatus, FileTransfer, FileTransferred, PathKind};
use agentiso_core::{Code, Failure};
use serde::Serialize;

use self::side::{Side, absolute, below, invalid, is_content, name_of};
use self::staging::Staging;
use super::interrupt::interruptible;
use super::{Daemon, read};
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, bytes};

/// What was copied, from all sources together.
#[derive(Default, Serialize)]
struct Copied {
    destination: String,
    files: u64,
    bytes: u64,
    /// Special files that were left out.
    skipped: Vec<String>,
    skipped_count: u64,
    transfers: Vec<FileTransferred>,
}

/// Copies every source to the destination, the last of the paths.
pub async fn cp(here: &Paths, mut flags: args::Cp, output: Output) -> Result<u8, Failure> {
    let Some(last) = flags.paths.pop() else { return Err(invalid("nothing to copy")) };
    let to = Side::of(&last)?;
    let from = flags.paths.iter().map(|path| Side::of(path)).collect::<Result<Vec<_>, _>>()?;
    check(&from, &to)?;
    let copy = Copy { daemon: Daemon::reach(here, output).await?, cache: here.cache_dir() };
    let to = copy.resolved(to).await?;
    if to == Side::Stream {
        let [Side::There { workspace, path }] = &from[..] else {
            return Err(invalid("only one file can be copied to standard output"));
        };
        let path = copy.absolute_there(workspace, path).await?;
        return read::print(&copy.daemon, workspace, &path, output).await;
    }
    let is_directory = copy.is_directory(&to).await?;
    if from.len() > 1 && !is_directory {
        return Err(Failure::new(Code::InvalidArgument, format!("{} is not a directory", last.display()))
            .with_remedy("several sources need a directory to be copied into; create it first"));
    }
    let mut copied = Copied { destination: last.display().to_string(), ..Copied::default() };
    for source in from {
        let source = copy.resolved(source).await?;
        let moved = copy.one(&source, &to, is_directory).await?;
        copied.add(moved);
    }
    tell(&copied, output)?;
    Ok(0)
}

/// Refuses what cannot be copied, before a daemon is started for it.
fn check(from: &[Side], to: &Side) -> Result<(), Failure> {
    let is_there = |side: &Side| matches!(side, Side::There { .. });
    if !from.iter().all(|side| is_there(side) || is_there(to)) {
        return Err(invalid("neither source nor destination is in a workspace")
            .with_remedy("for example: agentiso cp FILE WS:/tmp/"));
    }
    if from.len() > 1 && from.contains(&Side::Stream) {
        return Err(invalid("standard input cannot be one of several sources"));
    }
    Ok(())
}

/// One run of `cp`.
struct Copy {
    daemon: Daemon,
    cache: PathBuf,
}

impl Copy {
    /// Copies one source.
    async fn one(&self, from: &Side, to: &Side, into_directory: bool) -> Result<FileTransferred, Failure> {
        match (from, to) {
            (Side::Here(source), Side::There { workspace, path }) => {
                let text = source.to_string_lossy();
                let guest_path = destination(&text, &absolute(source)?, path, into_directory)?;
                self.transfer(Direction::Upload, workspace, absolute(source)?, guest_path).await
            }
            (Side::There { workspace, path }, Side::Here(target)) => {
                let host_path = destination(path, path, &absolute(target)?, into_directory)?;
                self.transfer(Direction::Download, workspace, host_path, without_dot(path)).await
            }
            (Side::There { workspace, path }, Side::There { workspace: other, path: target }) => {
                let staging = Staging::new(&self.cache)?;
                let between = staging.path("copy")?;
                self.transfer(Direction::Download, workspace, between.clone(), without_dot(path)).await?;
                let guest_path = destination(path, path, target, into_directory)?;
                self.transfer(Direction::Upload, other, between, guest_path).await
            }
            (Side::Stream, Side::There { workspace, path }) => {
                if into_directory {
                    return Err(invalid(&format!("{path} is a directory"))
                        .with_remedy("standard input has no file name: append one to the destination"));
                }
                let staging = Staging::new(&self.cache)?;
                let between = staging.path("stdin")?;
                interruptible(Staging::keep_input(between.clone())).await?;
                self.transfer(Direction::Upload, workspace, between, path.clone()).await
            }
            _ => Err(invalid("neither source nor destination is in a workspace")),
        }
    }

    async fn transfer(
        &self,
        direction: Direction,
        workspace: &str,
        host_path: String,
        guest_path: String,
    ) -> Result<FileTransferred, Failure> {
        let request = FileTransfer { workspace_id: workspace.to_owned(), direction, host_path, guest_path };
        self.daemon.ask("Still copying", &request).await
    }

    /// The same place, with a path in a workspace made absolute.
    async fn resolved(&self, side: Side) -> Result<Side, Failure> {
        match side {
            Side::There { workspace, path } => {
                let path = self.absolute_there(&workspace, &path).await?;
                Ok(Side::There { workspace, path })
            }
            other => Ok(other),
        }
    }

    /// A path in a workspace. One that does not begin with a slash begins where commands begin.
    async fn absolute_there(&self, workspace: &str, path: &str) -> Result<String, Failure> {
        if path.starts_with('/') {
            return Ok(path.to_owned());
        }
        let request =
            Exec { workspace_id: workspace.to_owned(), command: "pwd".to_owned(), ..Exec::default() };
        let said = self.daemon.ask("Still looking", &request).await?;
        let directory = said.stdout.trim_end_matches('\n');
        if said.exit_code != Some(0) || !directory.starts_with('/') {
            return Err(Failure::new(
                Code::GuestFailed,
                format!("{workspace} did not report where {path} is"),
            )
            .with_remedy(format!("give an absolute path, such as {workspace}:/root/{path}")));
        }
        Ok(below(directory, path))
    }

    /// Whether the destination is a directory. One that ends with a slash has to be.
    async fn is_directory(&self, to: &Side) -> Result<bool, Failure> {
        let (found, text, place) = match to {
            Side::Here(path) => (path.is_dir(), path.to_string_lossy().into_owned(), "this host".to_owned()),
            Side::There { workspace, path } => {
                (self.is_directory_there(workspace, path).await?, path.clone(), workspace.clone())
            }
            Side::Stream => return Ok(false),
        };
        if !found && text.ends_with('/') {
            return Err(Failure::new(Code::FileNotFound, format!("{text} is not a directory in {place}"))
                .with_remedy("create it first, or leave out the last slash"));
        }
        Ok(found)
    }

    async fn is_directory_there(&self, workspace: &str, path: &str) -> Result<bool, Failure> {
        let mut request = FileStat { workspace_id: workspace.to_owned(), path: path.to_owned() };
        let kind = |status: FileStatus| status.entry.map(|entry| entry.kind);
        let found = kind(self.daemon.ask("Still looking", &request).await?);
        if found != Some(PathKind::Symlink) {
            return Ok(found == Some(PathKind::Directory));
        }
        // What is behind a link is seen from within.
        request.path = below(path, ".");
        let behind = self.daemon.ask("Still looking", &request).await;
        Ok(behind.is_ok_and(|status| kind(status) == Some(PathKind::Directory)))
    }
}

/// Where the copy goes: into a directory under its source's name, unless only what is in the source is meant.
fn destination(written: &str, source: &str, to: &str, into_directory: bool) -> Result<String, Failure> {
    match into_directory && !is_content(written) {
        true => Ok(below(to, name_of(source)?)),
        false => Ok(to.to_owned()),
    }
}

/// `DIR/.` shown as `DIR`.
fn without_dot(path: &str) -> String {
    match path.strip_suffix("/.") {
        Some("") => "/".to_owned(),
        Some(directory) => directory.to_owned(),
        None => path.to_owned(),
    }
}

impl Copied {
    fn add(&mut self, moved: FileTransferred) {
        self.files += moved.files;
        self.bytes += moved.bytes;
        self.skipped.extend(moved.skipped.iter().cloned());
        self.skipped_count += moved.skipped_count;
        self.transfers.push(moved);
    }
}

fn tell(copied: &Copied, output: Output) -> Result<(), Failure> {
    // One source is told as it always was.
    let text = |out: &mut Stream| {
        let (files, size) = (copied.files, bytes(copied.bytes));
        let what = if files == 1 { "file" } else { "files and directories" };
        writeln!(out, "Copied {files} {what}, {size}, to {}.", copied.destination)
    };
    match &copied.transfers[..] {
        [only] => output.result(only, text)?,
        _ => output.result(copied, text)?,
    }
    if copied.skipped_count > 0 && !output.json {
        let mut err = Stream::stderr();
        let label = err.paint().warning("warning");
        let names = copied.skipped.join(", ");
        let more = copied.skipped_count.saturating_sub(copied.skipped.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(err, "{label}: skipped sockets, pipes and devices: {names}{more}");
    }
    Ok(())
}

fn trouble(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_is_added_in_a_directory_and_a_dot_adds_none() {
        let to = |written: &str, into| destination(written, written, "/srv", into).unwrap();
        assert_eq!(to("/a/b", true), "/srv/b");
        assert_eq!(to("/a/b/.", true), "/srv");
        assert_eq!(to("/a/b", false), "/srv");
        assert!(destination("/", "/", "/srv", true).is_err());
        assert_eq!(without_dot("/a/."), "/a");
        assert_eq!(without_dot("/."), "/");
    }

    #[test]
    fn one_side_must_be_in_a_workspace() {
        let side = |text: &str| Side::of(Path::new(text)).unwrap();
        assert!(check(&[side("a")], &side("b")).is_err());
        assert!(check(&[side("a"), side("-")], &side("web:/b")).is_err());
        assert!(check(&[side("-")], &side("-")).is_err());
        for (from, to) in [("a", "web:/b"), ("web:/a", "db:/b"), ("web:a", "-"), ("-", "web:a")] {
            check(&[side(from)], &side(to)).unwrap();
        }
    }
}
