//! Who asks.

use agentiso_core::SessionId;

/// Who asks for something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caller {
    /// Its session. The user of this machine needs none: all workspaces are theirs.
    pub session: Option<SessionId>,
    /// What it calls itself.
    pub client: String,
}

impl Caller {
    /// The user of this machine.
    pub fn operator(client: impl Into<String>) -> Self {
        Self { session: None, client: client.into() }
    }

    /// Whether it is the user of this machine.
    pub fn is_operator(&self) -> bool {
        self.session.is_none()
    }
}
