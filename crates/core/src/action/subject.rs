//! What actions refer to.

/// Something an action refers to and that may belong to somebody else.
///
/// An action declares every one of its subjects. Admission resolves each exactly once, checks that the caller may use
/// it, and gives what it found to the code that carries the action out, which looks nothing up by a user's reference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject<'a> {
    /// The workspace that the action works on. It comes first, and there is at most one.
    Workspace(&'a str),
    /// The same, of an action that removes it. One that nobody owns need not become the caller's for that.
    Removed(&'a str),
    /// A snapshot of that workspace, by its name.
    Snapshot(&'a str),
    /// A point in the history of that workspace (`SNAPSHOT` or `now`) or of another one (`WORKSPACE:SNAPSHOT` or
    /// `WORKSPACE:now`).
    Point(&'a str),
    /// A workspace that the caller wants to own. The action itself decides whether it may.
    Claimed(&'a str),
    /// A workspace whose past is of interest; it may have been destroyed.
    Past(&'a str),
}

/// A parameter that refers to something.
pub(crate) trait Reference {
    /// What it says, if it is given.
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
