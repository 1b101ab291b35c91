//! Identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares an identifier.
macro_rules! id {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(transparent)]
        pub struct $type(Uuid);

        impl $type {
            /// Wraps a UUID.
            pub fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The identifier as a UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl FromStr for $type {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::try_parse(text).map(Self)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Identifies a workspace; never changes. Time-ordered, so lists sort by age.
    WorkspaceId
}

id! {
    /// Identifies one snapshot of a workspace.
    SnapshotId
}

id! {
    /// Identifies one disk, frozen or in use; names its file.
    DiskId
}

id! {
    /// Identifies the memory part of a snapshot; names its files.
    MemoryId
}

id! {
    /// Identifies a client's session. Random, so that it cannot be guessed.
    SessionId
}

id! {
    /// Identifies a request for approval. Random, so that it cannot be guessed.
    ApprovalId
}

impl WorkspaceId {
    /// The last eight hex digits: the random part, short enough for a host name.
    pub fn short(&self) -> String {
        let digits = self.0.simple().to_string();
        digits[digits.len() - 8..].to_owned()
    }

    /// The machine-id (32 hex digits) for `/etc/machine-id`.
    pub fn machine_id(&self) -> String {
        self.0.simple().to_string()
    }

    /// A locally administered unicast MAC address derived from the id.
    pub fn mac(&self) -> [u8; 6] {
        let bytes = self.0.as_bytes();
        [0x52, 0x54, bytes[12], bytes[13], bytes[14], bytes[15]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_local_and_unicast() {
        let id = WorkspaceId::from_uuid(Uuid::from_u128(u128::MAX));
        assert_eq!(id.mac()[0] & 0b11, 0b10);
    }

    #[test]
    fn ids_made_in_the_same_millisecond_have_different_short_forms() {
        let (a, b) = (WorkspaceId::from_uuid(Uuid::now_v7()), WorkspaceId::from_uuid(Uuid::now_v7()));
        assert_ne!(a.short(), b.short());
        assert_ne!(a.mac(), b.mac());
    }
}
