//! The workspaces and snapshots that actions refer to.

/// A reference of an action to something that may have another owner.
///
/// An action declares all of its subjects. Admission resolves each of them once and checks that the caller may use it. The
/// code that performs the action receives the resolved records and never looks up a reference itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject<'a> {
    /// The workspace that the action works on. It comes first, and there is at most one.
    Workspace(&'a str),
    /// The workspace that the action removes. A workspace without an owner is not adopted first.
    Removed(&'a str),
    /// A snapshot of that workspace, by its name.
    Snapshot(&'a str),
    /// A point in the history of that workspace (`SNAPSHOT` or `now`) or of another one (`WORKSPACE:SNAPSHOT` or
    /// `WORKSPACE:now`).
    Point(&'a str),
    /// A workspace that the caller wants to own. The action itself decides whether it may.
    Claimed(&'a str),
    /// Another workspace that the action refers to, beside the one it works on.
    Other(&'a str),
    /// A workspace whose history is requested. It may have been destroyed.
    Past(&'a str),
}

/// A parameter that holds a reference.
pub(crate) trait Reference {
    /// The reference, if it is given.
    fn reference(&self) -> Option<&str>;
}

impl Reference for String {
    fn reference(&self) -> Option<&str> {
        Some(self)
    }
}

impl Reference for Option<String> {
    fn reference(&self) -> Option<&str> {
        self.as_deref()
    }
}
