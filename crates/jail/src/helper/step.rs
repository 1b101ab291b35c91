//! Naming the step that failed.

use rustix::io::Errno;

use crate::wire::Failure;

/// A step of setting up a sandbox that failed.
#[derive(Debug)]
pub(super) struct StepFailed {
    step: String,
    error: Errno,
    /// Whether the kernel refuses the whole mode, so that another may work.
    mode_refused: bool,
}

/// Results of system calls, which do not say what was being done.
pub(super) trait Step<T> {
    /// Says what was being done.
    fn step(self, doing: impl FnOnce() -> String) -> Result<T, StepFailed>;

    /// Says what was being done, where a lack of permission means that namespaces cannot be used at all.
    fn first_step(self, doing: &str) -> Result<T, StepFailed>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, doing: impl FnOnce() -> String) -> Result<T, StepFailed> {
        self.map_err(|error| StepFailed { step: doing(), error, mode_refused: false })
    }

    fn first_step(self, doing: &str) -> Result<T, StepFailed> {
        self.map_err(|error| StepFailed { step: doing.to_owned(), error, mode_refused: refuses_mode(error) })
    }
}

impl From<StepFailed> for Failure {
    fn from(failed: StepFailed) -> Self {
        let StepFailed { step, error, mode_refused } = failed;
        let error = error.raw_os_error();
        if mode_refused { Self::ModeRefused { step, error } } else { Self::SetUp { step, error } }
    }
}

/// Whether an error says that namespaces are disabled, used up or not supported.
fn refuses_mode(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM
            | Errno::ACCESS
            | Errno::NOSPC
            | Errno::NOSYS
            | Errno::INVAL
            | Errno::USERS
            | Errno::OPNOTSUPP
    )
}
