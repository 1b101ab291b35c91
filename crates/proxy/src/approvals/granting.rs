//! Whether the owner grants, and not whoever asked.

use std::io::IsTerminal;

use agentiso_core::approval::Approval;
use agentiso_core::{Code, Failure, SessionId};

use super::Asker;

/// The variable that commands find in their environment.
pub(crate) const INSIDE: &str = "AVFS_RUN";

/// The process that wants to grant a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Granting {
    /// Its session in the queue.
    pub session: SessionId,
    /// Whether it was started by a command that runs in the sandbox.
    pub inside: bool,
    /// Whether a person confirmed it at a terminal.
    pub confirmed: bool,
}

impl Granting {
    /// This process. `confirm` asks the person at the terminal; it is called only if there is one.
    pub fn current(confirm: impl FnOnce() -> bool) -> Self {
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        Self {
            session: Asker::current().session(),
            inside: std::env::var_os(INSIDE).is_some(),
            confirmed: terminal && confirm(),
        }
    }

    /// Refuses whoever asked.
    pub fn check(&self, request: &Approval) -> Result<(), Failure> {
        if self.inside {
            return Err(Failure::new(
                Code::NotPermitted,
                "a command that runs in the sandbox cannot grant requests for approval",
            )
            .with_remedy("ask the owner to grant it in a terminal"));
        }
        if request.asked_by == Some(self.session) && !self.confirmed {
            return Err(Failure::new(
                Code::NotPermitted,
                "the request comes from this session, which cannot grant it to itself",
            )
            .with_remedy("grant it in another terminal, or confirm it when asked in this one"));
        }
        Ok(())
    }
}
