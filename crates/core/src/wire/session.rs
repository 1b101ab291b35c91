//! Starting a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Secret;

/// The header with a client's name, if it differs from the user agent.
pub const CLIENT_HEADER: &str = "x-agentiso-client";
/// The header with a client's own secret, which distinguishes clients that share the user's token.
pub const SESSION_HEADER: &str = "agentiso-session";

/// A request for a session.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// The client's name.
    pub client: String,
    /// Whether the client speaks MCP.
    #[serde(default)]
    pub mcp: bool,
}

/// A session that was started.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SessionStarted {
    /// Its id.
    pub session_id: String,
    /// The token to send as `Authorization: Bearer` with every request of the session. It is returned only once.
    #[schemars(with = "String")]
    pub token: Secret<String>,
}
