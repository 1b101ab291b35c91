//! The caller of an action.

use agentiso_core::SessionId;
use agentiso_core::ports::records::MAX_CLIENT;

/// The caller of an action.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caller {
    /// Its session. The operator has none and may use every workspace.
    pub session: Option<SessionId>,
    /// The name it gives itself.
    pub client: String,
}

impl Caller {
    /// The operator: the user of this machine.
    pub fn operator(client: impl Into<String>) -> Self {
        Self { session: None, client: client.into() }
    }

    /// Whether it is the operator.
    pub fn is_operator(&self) -> bool {
        self.session.is_none()
    }

    /// Its name in the timeline. Sessions name themselves, so a name that could be mistaken for agentiso or the operator is
    /// marked as a session's.
    pub(crate) fn shown(&self) -> String {
        let name: String = self.client.chars().filter(|letter| !letter.is_control()).collect();
        let lower = name.to_lowercase();
        let mistakable = !name.is_ascii() || OURS.iter().any(|ours| lower.contains(ours));
        let shown = if self.session.is_some() && mistakable { format!("session {name:?}") } else { name };
        shown.chars().take(MAX_CLIENT).collect()
    }
}

/// Words reserved for agentiso and the operator.
const OURS: [&str; 3] = ["agentiso", "operator", "user"];

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_session_cannot_be_taken_for_the_user_in_the_timeline() {
        let session = |client: &str| {
            let session = Some(SessionId::from_uuid(Uuid::from_u128(7)));
            Caller { session, client: client.to_owned() }.shown()
        };
        assert_eq!(session("claude-code 1.0"), "claude-code 1.0");
        assert_eq!(session("agentiso (operator)"), "session \"agentiso (operator)\"");
        assert_eq!(session("\u{7}AgentISO/1.0"), "session \"AgentISO/1.0\"");
        // Its first letter is Cyrillic.
        assert_eq!(session("\u{430}gentiso"), "session \"\u{430}gentiso\"");
        assert_eq!(session("the user"), "session \"the user\"");
        assert_eq!(Caller::operator("agentiso/1.0").shown(), "agentiso/1.0");
        assert_eq!(session(&"agentiso".repeat(16)).chars().count(), MAX_CLIENT, "no longer than is stored");
    }
}
