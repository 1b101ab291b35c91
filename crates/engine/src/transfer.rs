//! Files between the host and a workspace, of any size and number.
//!
//! An agent reaches only the transfer directory, and in it only two things: a directory of its own session, which its
//! paths are mapped into, and, to read, what the operator put there. Paths are resolved beneath these directories by the
//! kernel, whatever links are in the way. What comes out of a guest is hostile: it is written into a new directory, no link in it is ever followed,
//! and it gets its name only when it is complete.

mod archive;
mod budget;
mod directories;
mod host;
mod receive;
mod send;
mod session;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentiso_core::action::{Direction, FileTransfer, FileTransferred};
use agentiso_core::{Code, Failure, SessionId, TransferSettings};

use crate::Engine;
use crate::act::Context;
use host::Place;
use session::Transfers;

/// Bytes moved at once.
const PIECE: usize = 256 * 1024;

/// How many files that were left out are named.
const NAMED: usize = 100;

/// How much was copied.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Moved {
    bytes: u64,
    files: u64,
    skipped: Skipped,
}

/// Sockets, pipes and devices, which are never copied.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Skipped {
    /// The first of them.
    names: Vec<String>,
    count: u64,
}

impl Skipped {
    fn note(&mut self, path: &[u8]) {
        self.count += 1;
        if self.names.len() < NAMED {
            self.names.push(String::from_utf8_lossy(path).into_owned());
        }
    }
}

impl Context {
    /// Copies in one direction or the other.
    pub(crate) async fn transfer(&self, asked: FileTransfer) -> Result<FileTransferred, Failure> {
        let upload = asked.direction == Direction::Upload;
        let host_path = PathBuf::from(&asked.host_path);
        if !host_path.is_absolute() {
            return Err(Failure::new(Code::InvalidArgument, "host_path is not an absolute path"));
        }
        let place = match self.caller.session {
            None => Place::of(&host_path, None)?,
            Some(session) => Transfers::of(self.transfer_dir()?, session)?.place(&host_path, upload)?,
        };
        let guest = self.guest().await?;
        let Moved { bytes, files, skipped } = match upload {
            true => send::send(&guest, &place, &asked.guest_path, &self.progress).await?,
            false => {
                let limits = self.download_limits();
                receive::receive(&guest, &asked.guest_path, &place, limits, &self.progress).await?
            }
        };
        Ok(FileTransferred {
            direction: asked.direction,
            host_path: place.path.display().to_string(),
            guest_path: asked.guest_path,
            bytes,
            files,
            skipped: skipped.names,
            skipped_count: skipped.count,
        })
    }

    fn download_limits(&self) -> budget::Limits {
        let TransferSettings { max_bytes, max_files, reserve_bytes, .. } = self.engine.settings.transfers;
        budget::Limits { bytes: max_bytes, files: max_files, reserve: reserve_bytes }
    }

    /// The directory agents may copy from and to. It is created if it does not exist.
    fn transfer_dir(&self) -> Result<PathBuf, Failure> {
        let dir = &self.engine.settings.transfers.dir;
        std::fs::create_dir_all(dir).map_err(|error| trouble(dir, &error))?;
        Ok(dir.clone())
    }
}

impl Engine {
    /// Removes the files of a session that has ended. Blocks.
    pub(crate) fn remove_transfers(&self, session: SessionId) -> Result<(), Failure> {
        session::remove(&self.settings.transfers.dir, session)
    }
}

/// A failure of the host's file system.
fn trouble(path: &Path, error: &std::io::Error) -> Failure {
    let code = match error.kind() {
        ErrorKind::NotFound => Code::FileNotFound,
        ErrorKind::FileTooLarge => Code::FileTooLarge,
        _ => Code::of_io(error),
    };
    Failure::new(code, format!("{}: {error}", path.display()))
}
