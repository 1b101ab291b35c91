//! Which session an MCP client over HTTP has.
//!
//! ```text
//!  the token of a session, or the user's token and Agentiso-Session ──► that session, for as long as it is used
//!  the user's token, an older revision     ──► a session for each Mcp-Session-Id: it ends with it
//!  the user's token, the newest revision   ──► a session for each name that a client gives itself
//! ```

use std::sync::Arc;

use agentiso_core::ports::records::SessionKind;
use agentiso_core::{Failure, SessionId};
use agentiso_engine::{Caller, Engine};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::dispatch::Direct;
use crate::{Answer, Backend, Call};

/// What a client is called that says nothing about itself.
const UNNAMED: &str = "mcp over http";

/// A conversation of an older revision whose client has nothing but the user's token. Its session begins with the first
/// call and ends with the conversation: what it owned is nobody's then.
pub(super) struct Conversation {
    engine: Arc<Engine>,
    session: Mutex<Option<SessionId>>,
}

impl Conversation {
    pub fn new(engine: &Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine: Arc::clone(engine), session: Mutex::default() })
    }

    /// Its session, which begins now unless there is one.
    pub async fn session(&self, client: &str) -> Result<SessionId, Failure> {
        let mut session = self.session.lock().await;
        match *session {
            Some(known) if self.engine.has_session(known).await => Ok(known),
            _ => {
                let begun = self.engine.begin_session(SessionKind::Fleeting, client).await?.id;
                *session = Some(begun);
                Ok(begun)
            }
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let session = *self.session.get_mut();
        // Without a runtime the daemon has ended, and the next one ends the session.
        let (Some(session), Ok(runtime)) = (session, Handle::try_current()) else { return };
        let engine = Arc::clone(&self.engine);
        runtime.spawn(async move {
            if let Err(failure) = engine.end_session(session).await {
                tracing::debug!(%failure, "a session had ended already");
            }
        });
    }
}

/// The engine itself, for one MCP client.
#[derive(Clone)]
pub(super) struct Agent {
    engine: Arc<Engine>,
    who: Who,
}

#[derive(Clone)]
enum Who {
    Known(Caller),
    Speaking(Arc<Conversation>),
}

impl Agent {
    /// One whose session is known.
    pub fn known(engine: &Arc<Engine>, caller: Caller) -> Self {
        Self { engine: Arc::clone(engine), who: Who::Known(caller) }
    }

    /// One whose session is that of a conversation.
    pub fn speaking(conversation: Arc<Conversation>) -> Self {
        Self { engine: Arc::clone(&conversation.engine), who: Who::Speaking(conversation) }
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
        Direct { engine: Arc::clone(&self.engine), caller }.call(call).await
    }

    async fn call_for(&self, client: &str, call: Call) -> Result<Answer, Failure> {
        let caller = self.caller(Some(client)).await?;
        Direct { engine: Arc::clone(&self.engine), caller }.call(call).await
    }
}
