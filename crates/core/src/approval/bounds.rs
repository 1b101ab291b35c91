//! How many requests may be open.

use crate::{Code, Failure};

/// The most open requests. A guest can raise them, so they are few.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpenLimits {
    /// Of one workspace.
    pub workspace: u32,
    /// Of all workspaces of one session.
    pub session: u32,
    /// Of the installation.
    pub all: u32,
}

impl OpenLimits {
    /// The limits of every installation.
    pub const DEFAULT: Self = Self { workspace: 16, session: 64, all: 512 };
}

/// How many requests are open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Of the workspace.
    pub workspace: u32,
    /// Of the session; 0 for the operator.
    pub session: u32,
    /// Of the installation.
    pub all: u32,
}

impl OpenLimits {
    /// Refuses one more request if a limit is reached.
    pub fn admit(self, counts: Counts) -> Result<(), Failure> {
        let reached = [
            (counts.workspace, self.workspace, "the workspace"),
            (counts.session, self.session, "the session"),
            (counts.all, self.all, "this installation"),
        ];
        match reached.into_iter().find(|(count, limit, _)| count >= limit) {
            None => Ok(()),
            Some((_, limit, whose)) => Err(Failure::new(
                Code::QuotaExceeded,
                format!("{whose} has {limit} open requests for approval, which is the limit"),
            )
            .with_remedy("answer open requests first, or wait until they expire")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_limit_is_ever_exceeded(workspace in 0u32..4, session in 0u32..4, all in 0u32..4) {
            let limits = OpenLimits { workspace: 1, session: 2, all: 3 };
            let admitted = limits.admit(Counts { workspace, session, all }).is_ok();
            prop_assert_eq!(admitted, workspace < 1 && session < 2 && all < 3);
        }
    }
}
