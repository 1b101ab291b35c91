//! Which state of a vault is meant.

use std::str::FromStr;
use std::sync::Arc;

use agentiso_store::TreeId;

use crate::VfsError;
use crate::annotations::Annotations;
use crate::name::check_checkpoint_name;

/// A state of a vault.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum StateRef {
    /// The working tree.
    #[default]
    Now,
    /// A checkpoint of the vault, or of a vault that it was forked from.
    Checkpoint(String),
    /// After the change of this number.
    Revision(u64),
    /// A tree by its identity. It must be in the store, and stay there.
    Tree(TreeId),
}

/// `now`, a revision such as `r17`, or the name of a checkpoint.
impl FromStr for StateRef {
    type Err = VfsError;

    fn from_str(text: &str) -> Result<Self, VfsError> {
        if text == "now" {
            return Ok(Self::Now);
        }
        if let Some(number) = revision_number(text) {
            return Ok(Self::Revision(number));
        }
        check_checkpoint_name(text)?;
        Ok(Self::Checkpoint(text.to_owned()))
    }
}

/// The number of a revision written as `r17`.
pub(crate) fn revision_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('r')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// A tree with its tags and metadata.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct State {
    /// The files.
    pub tree: TreeId,
    /// Tags and metadata by path.
    pub annotations: Arc<Annotations>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_from_text() {
        assert_eq!("now".parse::<StateRef>().unwrap(), StateRef::Now);
        assert_eq!("r17".parse::<StateRef>().unwrap(), StateRef::Revision(17));
        assert_eq!("release".parse::<StateRef>().unwrap(), StateRef::Checkpoint("release".to_owned()));
        assert!("a/b".parse::<StateRef>().is_err());
        assert_eq!(revision_number("r"), None);
    }
}
