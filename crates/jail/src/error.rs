//! Why a sandbox or a command in it did not start.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

use crate::enforcement::{Enforced, Measure};

/// Why a sandbox or a command in it did not start.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The specification or the command is wrong.
    #[error("the sandbox cannot be made as specified: {0}")]
    Invalid(String),
    /// A required measure cannot be enforced on this host.
    #[error("the sandbox cannot be made here: {} is {}: {}", .0.measure, .0.state, .0.detail)]
    Unavailable(Enforced),
    /// The sandbox was not set up.
    #[error("could not set up the sandbox: {step}")]
    SetUp {
        /// What was being done.
        step: String,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The working directory cannot be entered.
    #[error("could not enter the working directory {}", cwd.display())]
    WorkingDirectory {
        /// The directory, in the sandbox.
        cwd: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// There is no such program in the sandbox.
    #[error("the program {program:?} does not exist in the sandbox")]
    ProgramNotFound {
        /// As it was given.
        program: String,
    },
    /// The program cannot be executed.
    #[error("could not execute {program:?} in the sandbox")]
    NotExecutable {
        /// As it was given.
        program: String,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The helper process or its channel failed.
    #[error("could not {doing}")]
    Helper {
        /// What failed.
        doing: &'static str,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The sandbox ended without saying how its command ended, for example because its init was killed.
    #[error("the sandbox ended unexpectedly")]
    Lost,
}

impl Explain for JailError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::Unavailable(_) => Code::IsolationUnavailable,
            Self::SetUp { cause, .. } | Self::Helper { cause, .. } => Code::of_io(cause),
            Self::WorkingDirectory { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound => Code::FileNotFound,
                io::ErrorKind::NotADirectory => Code::NotADirectory,
                _ => Code::of_io(cause),
            },
            Self::ProgramNotFound { .. } => Code::FileNotFound,
            Self::NotExecutable { .. } => Code::PermissionDenied,
            Self::Lost => Code::Internal,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Unavailable(missing) => Some(advice(missing.measure).to_owned()),
            Self::ProgramNotFound { .. } => {
                Some("check the name, or make the program visible in the sandbox".to_owned())
            }
            Self::NotExecutable { .. } => {
                Some("check that the file is a program for this system and has the permission x".to_owned())
            }
            _ => None,
        }
    }
}

fn advice(measure: Measure) -> &'static str {
    match measure {
        Measure::UserNamespace
        | Measure::Filesystem
        | Measure::PidNamespace
        | Measure::Proc
        | Measure::Network
        | Measure::IpcNamespace
        | Measure::UtsNamespace
        | Measure::CgroupNamespace
        | Measure::TreeEnds => {
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0), \
             or do not require this measure"
        }
        Measure::Landlock => {
            "use a kernel with Landlock enabled (lsm=landlock), or do not require this measure"
        }
        Measure::MemoryLimit | Measure::ProcessLimit | Measure::CpuLimit => {
            "run in a delegated cgroup (a systemd user session, or a unit with Delegate=yes), \
             or do not require this measure"
        }
        Measure::NoNewPrivileges | Measure::Capabilities | Measure::Seccomp | Measure::ProcessResources => {
            "use a kernel with seccomp filters, or do not require this measure"
        }
    }
}
