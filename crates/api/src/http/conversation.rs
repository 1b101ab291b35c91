//! Which session an MCP client over HTTP has.
//!
//! ```text
//!  a session's token, or the user's token and Agentiso-Session ──► that session, for as long as it is used
//!  the user's token, an older revision     ──► a session for each Mcp-Session-Id, which ends with it
//!  the user's token, the newest revision   ──► a session for each name that a client gives itself
//! ```

use std::sync::Arc;

use agentiso_core::ports::records::SessionKind;
use agentiso_core::{Failure, SessionId};
use agentiso_engine::Caller;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::{Answer, Backend, Call, SharedBackend};

/// The name of a client that gives itself none.
const UNNAMED: &str = "mcp over http";

/// A conversation of an older revision whose client has nothing but the user's token. Its session starts with the first
/// call and ends with the conversation; its workspaces are left without an owner then.
pub(super) struct Conversation {
    backend: Arc<dyn SharedBackend>,
    session: Mutex<Option<SessionId>>,
}

impl Conversation {
    pub fn new(backend: &Arc<dyn SharedBackend>) -> Arc<Self> {
        Arc::new(Self { backend: Arc::clone(backend), session: Mutex::default() })
    }

    /// Its session, which is started if there is none.
    pub async fn session(&self, client: &str) -> Result<SessionId, Failure> {
        // Held while the session is looked up: two calls at once must not start two.
        let mut session = self.session.lock().await;
        if let Some(known) = *session
            && self.backend.has_session(known).await
        {
            return Ok(known);
        }
        let begun = self.backend.begin_session(SessionKind::Fleeting, client).await?.id;
        *session = Some(begun);
        Ok(begun)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Without a runtime the daemon has ended, and the next one ends the session.
        let (Some(session), Ok(runtime)) = (*self.session.get_mut(), Handle::try_current()) else { return };
        let backend = Arc::clone(&self.backend);
        runtime.spawn(async move {
            if let Err(failure) = backend.end_session(session).await {
                tracing::debug!(%failure, "a session had ended already");
            }
        });
    }
}

/// The backend for one MCP client.
#[derive(Clone)]
pub(super) struct Agent {
    backend: Arc<dyn SharedBackend>,
    who: Who,
}

#[derive(Clone)]
enum Who {
    Known(Caller),
    Speaking(Arc<Conversation>),
}

impl Agent {
    /// A client whose session is known.
    pub fn known(backend: &Arc<dyn SharedBackend>, caller: Caller) -> Self {
        Self { backend: Arc::clone(backend), who: Who::Known(caller) }
    }

    /// A client whose session is that of a conversation.
    pub fn speaking(conversation: Arc<Conversation>) -> Self {
        Self { backend: Arc::clone(&conversation.backend), who: Who::Speaking(conversation) }
    }

    async fn caller(&self, client: Option<&str>) -> Result<Caller, Failure> {
        let client = client.filter(|client| !client.trim().is_empty());
        match &self.who {
            Who::Known(caller) => {
                let client = client.unwrap_or(&caller.client).to_owned();
                Ok(Caller { client, ..caller.clone() })
            }
            Who::Speaking(conversation) => {
                let client = client.unwrap_or(UNNAMED).to_owned();
                Ok(Caller { session: Some(conversation.session(&client).await?), client })
            }
        }
    }
}

impl Backend for Agent {
    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        let caller = self.caller(None).await?;
        self.backend.call(&caller, call).await
    }

    async fn call_for(&self, client: &str, call: Call) -> Result<Answer, Failure> {
        let caller = self.caller(Some(client)).await?;
        self.backend.call(&caller, call).await
    }
}
