//! Files between the host and a workspace, of any size and number.
//!
//! An agent reaches only the transfer directory: its paths are resolved beneath it by the kernel, whatever links are in
//! the way. What comes out of a guest is hostile: it is written into a new directory, no link in it is ever followed,
//! and it gets its name only when it is complete.

mod host;
mod receive;
mod send;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentiso_core::action::{FileTransfer, FileTransferred};
use agentiso_core::{Code, Failure};

use crate::act::Context;
use host::Place;

/// Bytes moved at once.
const PIECE: usize = 256 * 1024;

/// How much was moved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Moved {
    bytes: u64,
    files: u64,
}

impl Context {
    /// Copies in one direction or the other.
    pub(crate) async fn transfer(&self, asked: FileTransfer) -> Result<FileTransferred, Failure> {
        let upload = match asked.direction.as_str() {
            "upload" => true,
            "download" => false,
            other => {
                return Err(Failure::new(Code::InvalidArgument, format!("direction {other:?} is unknown"))
                    .with_remedy("direction is upload or download"));
            }
        };
        let host_path = PathBuf::from(&asked.host_path);
        if !host_path.is_absolute() {
            return Err(Failure::new(Code::InvalidArgument, "host_path is not an absolute path"));
        }
        let within = if self.caller.is_operator() { None } else { Some(self.transfer_dir()?) };
        let place = Place::of(&host_path, within.as_deref())?;
        let guest = self.guest().await?;
        let Moved { bytes, files } = match upload {
            true => send::send(&guest, &place, &asked.guest_path, &self.progress).await?,
            false => receive::receive(&guest, &asked.guest_path, &place, &self.progress).await?,
        };
        Ok(FileTransferred {
            direction: asked.direction,
            host_path: asked.host_path,
            guest_path: asked.guest_path,
            bytes,
            files,
        })
    }

    /// The directory agents may copy from and to. It is there when this returns.
    fn transfer_dir(&self) -> Result<PathBuf, Failure> {
        let configured = self.engine.config().daemon.transfer_dir.clone();
        let dir = configured.unwrap_or_else(|| self.engine.installation().paths.home.join("transfers"));
        std::fs::create_dir_all(&dir).map_err(|error| trouble(&dir, &error))?;
        Ok(dir)
    }
}

/// What the host's file system said.
fn trouble(path: &Path, error: &std::io::Error) -> Failure {
    let code = match error.kind() {
        ErrorKind::NotFound => Code::FileNotFound,
        _ => Code::of_io(error),
    };
    Failure::new(code, format!("{}: {error}", path.display()))
}
