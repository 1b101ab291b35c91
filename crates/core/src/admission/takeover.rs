//! Whether a session may become the owner of a workspace.

use std::time::Duration;

use crate::SessionId;

/// The session that owns a workspace now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OwnerFacts {
    /// Its id.
    pub id: SessionId,
    /// Whether its client is connected.
    pub connected: bool,
    /// Whether one of its calls is running.
    pub calling: bool,
    /// How long it has been idle.
    pub idle: Duration,
}

/// Whether a session becomes the owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Takeover {
    /// It is the owner already.
    Owned,
    /// It becomes the owner.
    Allow,
    /// It does not.
    Deny(TakeoverDenial),
}

/// Why the present owner keeps a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TakeoverDenial {
    /// Its client is connected.
    Connected,
    /// One of its calls is running.
    Calling,
    /// It was active this long ago, which is too recent.
    Active(Duration),
}

/// Decides whether a session becomes the owner of a workspace, whose present owner must have been idle for
/// `idle_needed`. A client that is connected or at work keeps its workspaces however long it has been idle.
pub fn decide_takeover(claimant: SessionId, owner: Option<&OwnerFacts>, idle_needed: Duration) -> Takeover {
    match owner {
        None => Takeover::Allow,
        Some(owner) if owner.id == claimant => Takeover::Owned,
        Some(owner) if owner.connected => Takeover::Deny(TakeoverDenial::Connected),
        Some(owner) if owner.calling => Takeover::Deny(TakeoverDenial::Calling),
        Some(owner) if owner.idle < idle_needed => Takeover::Deny(TakeoverDenial::Active(owner.idle)),
        Some(_) => Takeover::Allow,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn session(number: u128) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number))
    }

    proptest! {
        #[test]
        fn an_owner_loses_a_workspace_only_when_it_is_gone_and_has_been_idle_for_long_enough(
            connected: bool, calling: bool, idle in 0u64..100, needed in 0u64..100
        ) {
            let owner = OwnerFacts { id: session(1), connected, calling, idle: Duration::from_secs(idle) };
            let decision = decide_takeover(session(2), Some(&owner), Duration::from_secs(needed));
            let gone = !connected && !calling && idle >= needed;
            prop_assert_eq!(decision == Takeover::Allow, gone);
        }
    }

    #[test]
    fn a_workspace_without_an_owner_is_taken_over_at_once_and_ones_own_is_kept() {
        assert_eq!(decide_takeover(session(1), None, Duration::MAX), Takeover::Allow);
        let own = OwnerFacts { id: session(1), connected: true, calling: true, idle: Duration::ZERO };
        assert_eq!(decide_takeover(session(1), Some(&own), Duration::MAX), Takeover::Owned);
    }
}
