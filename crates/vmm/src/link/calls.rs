//! Requests with a single answer.

use agentiso_proto::{
    Card, Configure, DirEntry, HookReport, Metadata, RawPath, Request, Response, Status, Wake,
};

use super::deadline::{ANSWER as ANSWER_WITHIN, within};
use super::stream::{Event, Shape};
use super::{Guest, LinkError};

/// The budget for one response: its message and the memory it takes once decoded.
const ANSWER: Shape = Shape { receives: &[], budget: 2 * agentiso_proto::MAX_PAYLOAD };
/// The budget for listing a directory: a quarter of a million files.
pub(super) const LISTING: Shape = Shape { receives: &[], budget: 64 * 1024 * 1024 };

impl Guest {
    /// Sets the machine's identity, and mounts and enters its disk if requested. Commands may be sent without waiting.
    pub async fn configure(&self, configure: Configure) -> Result<(), LinkError> {
        self.done(Request::Configure(configure)).await
    }

    /// Reads the guest's monotonic clock, in nanoseconds.
    pub async fn steady_clock(&self) -> Result<u64, LinkError> {
        self.needs_version(3).await?;
        let (response, guest) = self.call(Request::Clock).await?;
        match response {
            Response::Clock { nanos } => Ok(nanos),
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Sets the guest's wall clock to its monotonic clock plus an offset, in nanoseconds since the epoch.
    pub async fn set_clock(&self, ahead: u64) -> Result<(), LinkError> {
        self.needs_version(3).await?;
        self.done(Request::SetClock { ahead }).await
    }

    /// Stops every process in the guest except the agent until [`Self::release`] or [`Self::wake`], so that its memory can
    /// be copied. With `root` it also flushes and freezes the root file system. Commands are refused in the meantime. If
    /// processes cannot be stopped, all of them continue and the error says why.
    pub async fn hold(&self, root: bool) -> Result<(), LinkError> {
        self.done(Request::Hold { root }).await
    }

    /// Resumes held processes and thaws the root file system.
    pub async fn release(&self) -> Result<(), LinkError> {
        self.done(Request::Release).await
    }

    /// Sets the machine's identity, runs its hooks if requested, and resumes held processes. Returns the results of the
    /// hooks; a failing hook affects neither the others nor the machine. The agent answers nothing else until they have
    /// ended. Commands may be sent without waiting.
    pub async fn wake(&self, wake: Wake) -> Result<Vec<HookReport>, LinkError> {
        let (response, guest) = self.call(Request::Wake(wake)).await?;
        match response {
            Response::Woken { hooks } => match hooks.iter().find(|hook| !is_hook_name(&hook.name)) {
                None => Ok(hooks),
                Some(hook) => Err(guest.violation(format!("a hook called {:?}", hook.name))),
            },
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Configures the network card, or takes it down.
    pub async fn set_card(&self, card: Option<Card>) -> Result<(), LinkError> {
        self.needs_version(6).await?;
        self.done(Request::SetCard { card }).await
    }

    /// Metadata of a path; with `follow`, of the target of a symbolic link.
    pub async fn stat(&self, path: impl Into<RawPath>, follow: bool) -> Result<Metadata, LinkError> {
        let (response, guest) = self.call(Request::Stat { path: path.into(), follow }).await?;
        match response {
            Response::Metadata(metadata) => Ok(metadata),
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Lists a directory.
    pub async fn list(&self, path: impl Into<RawPath>) -> Result<Vec<DirEntry>, LinkError> {
        let mut exchange = self.start(&Request::List { path: path.into() }, LISTING).await?;
        let mut found = Vec::new();
        loop {
            match exchange.next().await? {
                Event::Response(Response::Entries(entries)) => {
                    if let Some(entry) = entries.iter().find(|entry| !is_file_name(&entry.name)) {
                        let name = String::from_utf8_lossy(&entry.name).into_owned();
                        return Err(self.violation(format!("a directory entry called {name:?}")));
                    }
                    found.extend(entries);
                }
                Event::Last(Response::Done) => return Ok(found),
                other => return Err(exchange.unexpected(&other)),
            }
        }
    }

    /// Removes a file or directory; a non-empty directory only if `recursive`.
    pub async fn remove(&self, path: impl Into<RawPath>, recursive: bool) -> Result<(), LinkError> {
        self.done(Request::Remove { path: path.into(), recursive }).await
    }

    /// Renames a file or directory; replaces an existing one only if `overwrite`.
    pub async fn rename(
        &self,
        from: impl Into<RawPath>,
        to: impl Into<RawPath>,
        overwrite: bool,
    ) -> Result<(), LinkError> {
        self.done(Request::Rename { from: from.into(), to: to.into(), overwrite }).await
    }

    /// Creates a directory, with mode 0755 by default. With `parents`, missing parents are created and existing
    /// directories are no error.
    pub async fn mkdir(
        &self,
        path: impl Into<RawPath>,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<(), LinkError> {
        self.done(Request::Mkdir { path: path.into(), mode, parents }).await
    }

    /// Changes permission bits.
    pub async fn chmod(&self, path: impl Into<RawPath>, mode: u32) -> Result<(), LinkError> {
        self.done(Request::Chmod { path: path.into(), mode }).await
    }

    /// Flushes the root file system and blocks all writes to it until [`Self::thaw`].
    pub async fn freeze(&self) -> Result<(), LinkError> {
        self.done(Request::Freeze).await
    }

    /// Ends a freeze.
    pub async fn thaw(&self) -> Result<(), LinkError> {
        self.done(Request::Thaw).await
    }

    /// Grows the root file system to the size of its disk.
    pub async fn grow(&self) -> Result<(), LinkError> {
        self.done(Request::Grow).await
    }

    /// Flushes all file systems.
    pub async fn sync(&self) -> Result<(), LinkError> {
        self.done(Request::Sync).await
    }

    /// The agent's status.
    pub async fn status(&self) -> Result<Status, LinkError> {
        let (response, guest) = self.call(Request::Status).await?;
        match response {
            Response::Status(status) => Ok(status),
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Ends all processes in the guest, unmounts its disk and powers it off.
    pub async fn power_off(&self) -> Result<(), LinkError> {
        self.done(Request::PowerOff).await
    }

    pub(super) async fn done(&self, request: Request) -> Result<(), LinkError> {
        let (response, guest) = self.call(request).await?;
        match response {
            Response::Done => Ok(()),
            other => Err(guest.mismatch(&other)),
        }
    }

    pub(super) async fn call(&self, request: Request) -> Result<(Response, &Self), LinkError> {
        let exchange = self.start(&request, ANSWER).await?;
        Ok((exchange.only().await?, self))
    }

    /// Waits for the Welcome and fails if the agent is too old for a request.
    pub(super) async fn needs_version(&self, needed: u16) -> Result<(), LinkError> {
        match within(ANSWER_WITHIN, "opening the session", self.ready()).await? {
            version if version < needed => Err(LinkError::OldAgent { version, needed }),
            _ => Ok(()),
        }
    }

    pub(super) fn mismatch(&self, response: &Response) -> LinkError {
        let what: String = format!("{response:?}").chars().take(80).collect();
        self.violation(format!("an answer to something else: {what}"))
    }
}

/// Whether a name is a valid directory entry. Callers build paths from it.
fn is_file_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Whether a name is a valid hook name. Callers show it to people.
fn is_hook_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=255).contains(&name.len()) && name.bytes().all(allowed)
}
