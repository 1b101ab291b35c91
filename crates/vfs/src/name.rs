//! Names of vaults and checkpoints, and ids of vaults.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::VfsError;

/// The name of a vault: 1 to 64 bytes, letters and digits of any script, `-` and `_`, not beginning with `-`. Something
/// that looks like an id is not a name, and neither are `now` and a revision such as `r17`, which mean states.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VaultName(String);

impl VaultName {
    /// Longest name in bytes.
    pub const MAX: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VaultName {
    type Err = VfsError;

    fn from_str(name: &str) -> Result<Self, VfsError> {
        let refused = |reason| Err(VfsError::Name { kind: "the vault", name: shortened(name), reason });
        if name.is_empty() || name.len() > Self::MAX {
            return refused("it must have 1 to 64 bytes");
        }
        if !name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')) {
            return refused("it may have letters, digits, \"-\" and \"_\"");
        }
        if name.starts_with('-') {
            return refused("it must not begin with \"-\"");
        }
        if Uuid::parse_str(name).is_ok() {
            return refused("it looks like an id");
        }
        if name == "now" || crate::state::revision_number(name).is_some() {
            return refused("it is a word for a state of a vault");
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for VaultName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks the name of a checkpoint: 1 to 128 bytes, not beginning with `-`, without `/`, control characters and spaces at
/// its ends; not `now` and not a revision such as `r17`.
pub(crate) fn check_checkpoint_name(name: &str) -> Result<(), VfsError> {
    let refused = |reason| Err(VfsError::Name { kind: "the checkpoint", name: shortened(name), reason });
    if name.is_empty() || name.len() > 128 {
        return refused("it must have 1 to 128 bytes");
    }
    if name.chars().any(|letter| letter.is_control() || letter == '/') {
        return refused("it must not have \"/\" or control characters");
    }
    if name.starts_with('-') || name.trim() != name {
        return refused("it must not begin with \"-\", nor begin or end with a space");
    }
    if name == "now" || crate::state::revision_number(name).is_some() {
        return refused("it is a word for another state");
    }
    Ok(())
}

/// A long name is cut, so that it does not fill an error message.
fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

/// The permanent identity of a vault.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VaultId(pub Uuid);

impl fmt::Display for VaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words() {
        for good in ["a", "project-1", "_x", "größe", "42", &"x".repeat(64)] {
            assert!(good.parse::<VaultName>().is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "",
            "-a",
            ".a",
            "a.b",
            "now",
            "r17",
            "a/b",
            "a b",
            "a\n",
            "..",
            "a\0",
            &long,
            "é".repeat(33).as_str(),
        ] {
            assert!(bad.parse::<VaultName>().is_err(), "{bad:?}");
        }
        assert!(Uuid::now_v7().to_string().parse::<VaultName>().is_err());
    }

    #[test]
    fn checkpoint_names_cannot_be_taken_for_other_states() {
        for good in ["before-change", "v1.2", "release 3", "r", "nowish", "r1x"] {
            assert!(check_checkpoint_name(good).is_ok(), "{good}");
        }
        for bad in ["", "now", "r17", "a/b", "-x", " x", "x\n", &"x".repeat(129)] {
            assert!(check_checkpoint_name(bad).is_err(), "{bad:?}");
        }
    }
}
