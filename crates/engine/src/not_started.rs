//! Why a command did not start.

use agentiso_core::ports::link::{ErrorKind, GuestError, Link, LinkError};
pub(crate) use agentiso_core::wire::Refused;
use agentiso_core::{Code, Failure};

use crate::actions::for_missing;

const ENOTDIR: i32 = 20;

/// Why a command did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// What failed.
    pub failure: Failure,
    /// Set if the program itself is what could not be run.
    pub refused: Option<Refused>,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self { failure, refused: None }
    }
}

impl From<NotStarted> for Failure {
    fn from(not_started: NotStarted) -> Self {
        not_started.failure
    }
}

impl From<LinkError> for NotStarted {
    fn from(error: LinkError) -> Self {
        match &error {
            LinkError::Guest(refusal) => explain(refusal).unwrap_or_else(|| Failure::from(error).into()),
            _ => Failure::from(error).into(),
        }
    }
}

impl NotStarted {
    /// Adds what to use instead, if the machine does not have the program of a command without a shell.
    pub(crate) async fn with_hint(mut self, guest: &Link, argv: &[Vec<u8>]) -> Self {
        if self.refused != Some(Refused::NotFound) {
            return self;
        }
        let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        if let Some(program) = words.first()
            && let Some(hint) = for_missing(guest, program, &words.join(" ")).await
        {
            self.failure = self.failure.with_remedy(hint);
        }
        self
    }
}

/// Agents of every version report at which step a start failed in the message alone, in these words.
fn explain(error: &GuestError) -> Option<NotStarted> {
    let message = &error.message;
    if let Some(rest) = message.strip_prefix("entering the working directory ") {
        // The path may contain a colon; the kernel's words do not.
        let path = rest.rsplit_once(": ").map_or(rest, |(path, _)| path);
        return Some(workdir(error, path).into());
    }
    if message.starts_with("there is no user ") {
        let failure = Failure::new(Code::UserNotFound, format!("{message} of the workspace"))
            .with_remedy("create the user in the workspace first, or omit the user");
        return Some(failure.into());
    }
    let refused = match error.kind {
        ErrorKind::NotFound if message.starts_with("running ") => Refused::NotFound,
        ErrorKind::Denied if message.starts_with("running ") => Refused::NotExecutable,
        ErrorKind::Invalid if message.contains("too long") => {
            let failure =
                Failure::new(Code::InvalidArgument, format!("the command could not start: {message}"))
                    .with_remedy("pass long content on standard input or in a file");
            return Some(failure.into());
        }
        _ => return None,
    };
    let program = message.strip_prefix("running ").and_then(|rest| rest.rsplit_once(": "));
    let remedy = match program {
        // Users of ssh tend to pass a whole command line as one argument.
        Some((program, _)) if program.contains(' ') => {
            "the first argument must be a program alone; run a shell command line with: sh -c 'COMMAND LINE'"
        }
        _ if refused == Refused::NotExecutable => "make it executable, or run it with its interpreter",
        _ => "check the command's name, or use an image that has it",
    };
    let failure = Failure::new(Code::GuestFailed, format!("the command could not start: {message}"))
        .with_remedy(remedy);
    Some(NotStarted { failure, refused: Some(refused) })
}

fn workdir(error: &GuestError, path: &str) -> Failure {
    let (code, why) = match error.kind {
        _ if error.errno == Some(ENOTDIR) => (Code::NotADirectory, "is not a directory"),
        ErrorKind::NotFound => (Code::FileNotFound, "does not exist in the workspace"),
        ErrorKind::Denied => (Code::PermissionDenied, "may not be entered by the command's user"),
        _ => {
            return Failure::new(
                Code::GuestFailed,
                format!("the command could not start: {}", error.message),
            );
        }
    };
    Failure::new(code, format!("the working directory {path} {why}, so the command was not started"))
        .with_remedy("create the directory first, or choose another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_started(kind: ErrorKind, errno: Option<i32>, message: &str) -> NotStarted {
        LinkError::Guest(GuestError { kind, errno, message: message.to_owned() }).into()
    }

    #[test]
    fn only_a_missing_program_is_taken_for_a_missing_program() {
        let missing = not_started(ErrorKind::NotFound, Some(2), "running nope: No such file or directory");
        assert_eq!(missing.refused, Some(Refused::NotFound));
        let line = not_started(ErrorKind::NotFound, Some(2), "running ls -l: No such file or directory");
        assert!(line.failure.remedy().unwrap().contains("sh -c"));
        let denied = not_started(ErrorKind::Denied, Some(13), "running /etc/passwd: Permission denied");
        assert_eq!(denied.refused, Some(Refused::NotExecutable));
        for (kind, errno, message, code) in [
            (
                ErrorKind::NotFound,
                Some(2),
                "entering the working directory /a: b: No such file or directory",
                Code::FileNotFound,
            ),
            (
                ErrorKind::NotFound,
                Some(20),
                "entering the working directory /etc/passwd: Not a directory",
                Code::NotADirectory,
            ),
            (
                ErrorKind::Denied,
                Some(13),
                "entering the working directory /root: Permission denied",
                Code::PermissionDenied,
            ),
            (ErrorKind::NotFound, None, "there is no user eve in /etc/passwd", Code::UserNotFound),
            (
                ErrorKind::Invalid,
                None,
                "the arguments and the environment are too long",
                Code::InvalidArgument,
            ),
        ] {
            let told = not_started(kind, errno, message);
            assert_eq!((told.refused, told.failure.code()), (None, code), "{message}");
            assert!(told.failure.remedy().is_some(), "{message}");
        }
        let told = not_started(
            ErrorKind::NotFound,
            Some(2),
            "entering the working directory /a: b: No such file or directory",
        );
        let expected =
            "the working directory /a: b does not exist in the workspace, so the command was not started";
        assert_eq!(told.failure.message(), expected);
    }
}
