//! Whether the owner grants, and not whoever asked.

use std::io::IsTerminal;

use agentiso_core::{Code, Failure, SessionId};

use super::Asker;

/// The variable that commands find in their environment.
pub(crate) const INSIDE: &str = "AVFS_RUN";

/// The process that wants to grant a request.
pub struct Granting<'c> {
    /// Its session in the queue, and those of the processes that it descends from.
    sessions: Vec<SessionId>,
    /// Whether it was started by a command that runs in the sandbox.
    is_inside: bool,
    /// Asks a person at the terminal, if there is one.
    confirm: Option<&'c dyn Fn() -> bool>,
}

impl<'c> Granting<'c> {
    /// This process. `confirm` asks the person at the terminal; it is called only if that is necessary and possible.
    pub fn current(confirm: &'c dyn Fn() -> bool) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        Self {
            sessions: Asker::ancestry(),
            is_inside: std::env::var_os(INSIDE).is_some(),
            confirm: is_terminal.then_some(confirm),
        }
    }

    /// Another process, for tests.
    #[cfg(test)]
    pub(super) fn of(sessions: &[SessionId], is_inside: bool, confirm: Option<&'c dyn Fn() -> bool>) -> Self {
        Self { sessions: sessions.to_vec(), is_inside, confirm }
    }

    /// Refuses whoever asked, unless a person confirms it.
    pub fn check(&self, asked_by: Option<SessionId>) -> Result<(), Failure> {
        if self.is_inside {
            return Err(Failure::new(
                Code::NotPermitted,
                "a command that runs in the sandbox cannot grant requests for approval",
            )
            .with_remedy("ask the owner to grant it in a terminal"));
        }
        let is_theirs = asked_by.is_some_and(|asker| self.sessions.contains(&asker));
        if is_theirs && !self.confirm.is_some_and(|confirm| confirm()) {
            return Err(Failure::new(
                Code::NotPermitted,
                "the request comes from this session, or one it was started in, which cannot grant it to itself",
            )
            .with_remedy("grant it in another terminal, or confirm it when asked in this one"));
        }
        Ok(())
    }
}
