//! `agentiso cp`: files and directories between here and a workspace.

use std::io::Write;
use std::path::{Path, PathBuf};

use agentiso_core::action::{FileStat, FileTransfer};
use agentiso_core::{Code, Failure};
use agentiso_runtime::Installation;

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::bytes;

/// A place to copy from or to.
#[derive(Debug, Eq, PartialEq)]
enum Side {
    Here(PathBuf),
    There { workspace: String, path: String },
}

/// Copies in one direction or the other.
pub async fn cp(here: &Installation, flags: args::Cp, output: Output) -> Result<u8, Failure> {
    let sides = (Side::of(&flags.source)?, Side::of(&flags.destination)?);
    let daemon = Daemon::reach(here, output).await?;
    let wish = match sides {
        (Side::Here(from), Side::There { workspace, path }) => {
            upload(&daemon, &from, workspace, path).await?
        }
        (Side::There { workspace, path }, Side::Here(to)) => download(workspace, path, &to)?,
        _ => {
            return Err(invalid("one side must be in a workspace, and only one")
                .with_remedy("for example: agentiso cp FILE WS:/tmp/"));
        }
    };
    let copied = daemon.ask("Still copying", &wish).await?;
    output.result(&copied, |out| {
        let (files, size) = (copied.files, bytes(copied.bytes));
        let to = if copied.direction == "upload" { &copied.guest_path } else { &copied.host_path };
        let what = if files == 1 { "file" } else { "files and directories" };
        writeln!(out, "Copied {files} {what}, {size}, to {to}.")
    })?;
    Ok(0)
}

async fn upload(
    daemon: &Daemon,
    from: &Path,
    workspace: String,
    to: String,
) -> Result<FileTransfer, Failure> {
    let source = absolute(from)?;
    let is_directory = is_directory_there(daemon, &workspace, &to).await?;
    let guest_path = match is_directory {
        true => {
            let Some(name) = last_word(&source) else {
                return Err(invalid("the source has no name that the copy could have"));
            };
            format!("{}/{name}", to.trim_end_matches('/'))
        }
        false if to.ends_with('/') => {
            return Err(Failure::new(Code::FileNotFound, format!("{to} is no directory in {workspace}"))
                .with_remedy("make it first, or leave the last slash out"));
        }
        false => to,
    };
    let direction = "upload".to_owned();
    Ok(FileTransfer { workspace_id: workspace, direction, host_path: source, guest_path })
}

fn download(workspace: String, from: String, to: &Path) -> Result<FileTransfer, Failure> {
    let path = absolute(to)?;
    let host_path = if to.is_dir() {
        let Some(name) = last_word(&from) else {
            return Err(invalid("the source has no name that the copy could have"));
        };
        format!("{}/{name}", path.trim_end_matches('/'))
    } else if to.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Failure::new(Code::FileNotFound, format!("{} is no directory", to.display()))
            .with_remedy("make it first, or leave the last slash out"));
    } else {
        path
    };
    let direction = "download".to_owned();
    Ok(FileTransfer { workspace_id: workspace, direction, host_path, guest_path: from })
}

/// Whether a path in a workspace is a directory, or a link to one.
async fn is_directory_there(daemon: &Daemon, workspace: &str, path: &str) -> Result<bool, Failure> {
    let mut wish = FileStat { workspace_id: workspace.to_owned(), path: path.to_owned() };
    let kind = |status: agentiso_core::action::FileStatus| status.entry.map(|entry| entry.kind);
    let found = kind(daemon.ask("Still looking", &wish).await?);
    if found.as_deref() != Some("symlink") {
        return Ok(found.as_deref() == Some("directory"));
    }
    // What is behind a link is seen from within.
    wish.path = format!("{}/.", path.trim_end_matches('/'));
    let behind = daemon.ask("Still looking", &wish).await;
    Ok(behind.is_ok_and(|status| kind(status).as_deref() == Some("directory")))
}

impl Side {
    /// `WS:PATH` is a path in a workspace, unless there is a slash before the colon.
    fn of(path: &Path) -> Result<Self, Failure> {
        let Some(text) = path.to_str() else { return Ok(Self::Here(path.to_owned())) };
        match text.split_once(':') {
            Some((workspace, path)) if !workspace.is_empty() && !workspace.contains('/') => {
                if !path.starts_with('/') {
                    return Err(invalid(&format!("{text}: a path in a workspace begins with a slash"))
                        .with_remedy(format!("for example {workspace}:/root/{path}")));
                }
                Ok(Self::There { workspace: workspace.to_owned(), path: path.to_owned() })
            }
            _ => Ok(Self::Here(path.to_owned())),
        }
    }
}

/// An absolute path, in which there is no link and no `..` at its end.
fn absolute(path: &Path) -> Result<String, Failure> {
    let made = match path.file_name() {
        Some(_) => std::path::absolute(path),
        // `.` and `..` have names of their own.
        None => path.canonicalize(),
    };
    let made =
        made.map_err(|error| Failure::new(Code::of_io(&error), format!("{}: {error}", path.display())))?;
    match made.to_str() {
        Some(text) if text.len() > 1 => Ok(text.trim_end_matches('/').to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(invalid(&format!("{} is not text", path.display()))),
    }
}

/// The name at the end of a path.
fn last_word(path: &str) -> Option<&str> {
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

fn invalid(message: &str) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_names_a_workspace() {
        let there = |text: &str| Side::of(Path::new(text)).unwrap();
        let path = "/a:b".to_owned();
        assert_eq!(there("web:/a:b"), Side::There { workspace: "web".to_owned(), path });
        for here in ["file", "./web:/a", "/tmp/x:y", ":/a"] {
            assert_eq!(there(here), Side::Here(here.into()));
        }
        assert_eq!(Side::of(Path::new("web:a")).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_copy_gets_its_sources_name_in_a_directory_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().to_str().unwrap();
        let path =
            |to: &Path| download("web".to_owned(), "/var/log/".to_owned(), to).map(|wish| wish.host_path);
        assert_eq!(path(dir.path()).unwrap(), format!("{top}/log"));
        assert_eq!(path(&dir.path().join("new")).unwrap(), format!("{top}/new"));
        assert_eq!(path(&dir.path().join("new/")).unwrap_err().code(), Code::FileNotFound);
        assert_eq!(last_word("/"), None);
        assert_eq!(absolute(Path::new("/a/b/")).unwrap(), "/a/b");
    }
}
