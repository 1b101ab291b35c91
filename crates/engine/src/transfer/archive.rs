//! Archives of the host that become images or workspaces.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};

use super::host::{Place, Unfinished};
use super::session::Transfers;
use super::trouble;
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

/// A file of the host that is being written. It goes away unless it is finished.
pub(crate) struct HostTarget {
    place: Place,
    file: Unfinished,
}

impl HostTarget {
    /// The file, to be written.
    pub(crate) fn fd(&self) -> Result<OwnedFd, Failure> {
        self.file.fd().map_err(|error| trouble(&self.place.path, &error))
    }

    /// Makes it durable, gives it its name and says where it is.
    pub(crate) fn finish(self) -> Result<PathBuf, Failure> {
        let synced = File::from(self.fd()?).sync_all();
        synced.map_err(|error| trouble(&self.place.path, &error))?;
        self.place.finish(self.file)?;
        Ok(self.place.path)
    }
}

impl Context {
    /// A new file at an absolute path of the host, which takes the path when it is complete. The user of this machine
    /// may write everywhere, an agent in its transfer directory.
    pub(crate) fn host_target(&self, host_path: &str) -> Result<HostTarget, Failure> {
        let path = PathBuf::from(host_path);
        if !path.is_absolute() {
            return Err(Failure::new(Code::InvalidArgument, "host_path is not an absolute path"));
        }
        let place = match self.caller.session {
            None => Place::of(&path, None)?,
            Some(session) => Transfers::of(self.transfer_dir()?, session)?.place(&path, false)?,
        };
        place.require_no_directory()?;
        // It stays private: a workspace may contain secrets.
        let file = place.new_file()?;
        Ok(HostTarget { place, file })
    }

    /// How many bytes the caller may write to the host at once.
    pub(crate) fn download_bytes(&self) -> u64 {
        match self.caller.is_operator() {
            true => u64::MAX,
            false => self.engine.settings.transfers.max_bytes,
        }
    }

    /// The file at an absolute path of the host. The operator may read everything; an agent only a regular file in its
    /// transfer directory, which is opened here, so that no link can lead elsewhere later.
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
