//! Requests with a single answer.

use agentiso_proto::{Configure, DirEntry, HookReport, Metadata, RawPath, Request, Response, Status, Wake};

use super::deadline::{ANSWER as ANSWER_WITHIN, within};
use super::stream::{Event, Shape};
use super::{Guest, LinkError};

/// An answer is one message; the second allows for its cost.
const ANSWER: Shape = Shape { receives: &[], budget: 2 * agentiso_proto::MAX_PAYLOAD };
/// A directory of a quarter of a million files.
pub(super) const LISTING: Shape = Shape { receives: &[], budget: 64 * 1024 * 1024 };

impl Guest {
    /// Makes the machine a distinct one, and mounts and enters its disk if asked. Commands may be sent at once.
    pub async fn configure(&self, configure: Configure) -> Result<(), LinkError> {
        self.done(Request::Configure(configure)).await
    }

    /// Reads the guest's clock that nobody sets, in nanoseconds.
    pub async fn steady_clock(&self) -> Result<u64, LinkError> {
        self.needs_version(3).await?;
        let (response, guest) = self.call(Request::Clock).await?;
        match response {
            Response::Clock { nanos } => Ok(nanos),
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Sets the guest's wall clock by the one that nobody sets: so many nanoseconds since the epoch it is ahead of it.
    pub async fn set_clock(&self, ahead: u64) -> Result<(), LinkError> {
        self.needs_version(3).await?;
        self.done(Request::SetClock { ahead }).await
    }

    /// Stops every process in the guest but the agent until [`Self::release`] or [`Self::wake`], for copying its
    /// memory; with `root` also flushes and freezes the root file system. Commands are refused meanwhile. A guest
    /// that cannot be brought to rest goes on as before and the error says why.
    pub async fn hold(&self, root: bool) -> Result<(), LinkError> {
        self.done(Request::Hold { root }).await
    }

    /// Ends a hold, and the freeze of the root with it.
    pub async fn release(&self) -> Result<(), LinkError> {
        self.done(Request::Release).await
    }

    /// Makes the machine a distinct one, runs its hooks if asked, and lets it go on if it was held. Returns what
    /// became of the hooks; none of them can stop the others or the machine. The agent answers nothing else until
    /// they have ended. Commands may be sent at once.
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

    /// Looks at a path; at what a symbolic link at its end points to if `follow`.
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

    /// Removes a file or directory; a directory that is not empty only if `recursive`.
    pub async fn remove(&self, path: impl Into<RawPath>, recursive: bool) -> Result<(), LinkError> {
        self.done(Request::Remove { path: path.into(), recursive }).await
    }

    /// Renames a file or directory; replaces what has the new name only if `overwrite`.
    pub async fn rename(
        &self,
        from: impl Into<RawPath>,
        to: impl Into<RawPath>,
        overwrite: bool,
    ) -> Result<(), LinkError> {
        self.done(Request::Rename { from: from.into(), to: to.into(), overwrite }).await
    }

    /// Makes a directory, with 0755 if no mode is given; with `parents` also those above it, and none of them
    /// need be new.
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

    /// Flushes the root file system and holds all writes to it back until [`Self::thaw`].
    pub async fn freeze(&self) -> Result<(), LinkError> {
        self.done(Request::Freeze).await
    }

    /// Ends a freeze.
    pub async fn thaw(&self) -> Result<(), LinkError> {
        self.done(Request::Thaw).await
    }

    /// Grows the root file system to the size its disk has now.
    pub async fn grow(&self) -> Result<(), LinkError> {
        self.done(Request::Grow).await
    }

    /// Flushes all file systems.
    pub async fn sync(&self) -> Result<(), LinkError> {
        self.done(Request::Sync).await
    }

    /// Asks for the agent's condition.
    pub async fn status(&self) -> Result<Status, LinkError> {
        let (response, guest) = self.call(Request::Status).await?;
        match response {
            Response::Status(status) => Ok(status),
            other => Err(guest.mismatch(&other)),
        }
    }

    /// Ends everything in the guest, unmounts its disk cleanly and powers it off.
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

    /// Waits for the Welcome and fails if the agent is too old for what is to be asked of it.
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

/// Whether this can be the name of something in a directory: callers build paths from it.
fn is_file_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Whether the agent would run a hook of this name: callers show it to people.
fn is_hook_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=255).contains(&name.len()) && name.bytes().all(allowed)
}
