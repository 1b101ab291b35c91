//! Archives of the host that become images or workspaces.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};

use super::host::Place;
use super::session::Transfers;
use crate::act::Context;

/// A file of the host that its caller may read. Its path stays right as long as this lives.
pub(crate) struct HostSource {
    path: PathBuf,
    _file: Option<OwnedFd>,
}

impl HostSource {
    /// Where it can be read.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A failure that names the file as its caller did.
    pub(crate) fn explained(&self, failure: Failure, host_path: &str) -> Failure {
        let message = failure.message().replace(&self.path.display().to_string(), host_path);
        let renamed = Failure::new(failure.code(), message);
        match failure.remedy() {
            Some(remedy) => renamed.with_remedy(remedy),
            None => renamed,
        }
    }
}

impl Context {
    /// What an absolute path of the host means to the caller. The user of this machine may read everything; an agent
    /// only a regular file in its transfer directory, which is opened here, so that no link can lead elsewhere later.
    pub(crate) fn host_source(&self, host_path: &str) -> Result<HostSource, Failure> {
        let path = PathBuf::from(host_path);
        if !path.is_absolute() {
            return Err(Failure::new(Code::InvalidArgument, "host_path is not an absolute path"));
        }
        let Some(session) = self.caller.session else { return Ok(HostSource { path, _file: None }) };
        let place: Place = Transfers::of(self.transfer_dir()?, session)?.place(&path, true)?;
        let file = place.open()?;
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        if !is_file {
            let message = format!("{} is not a regular file", path.display());
            return Err(
                Failure::new(Code::InvalidArgument, message).with_remedy("give the path of an archive")
            );
        }
        let file = OwnedFd::from(file);
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(HostSource { path, _file: Some(file) })
    }
}
