//! Finding and running programs of the host.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use agentiso_core::{Code, Explain};
use rustix::fs::Mode;

/// Directories of administrators' programs, which may not be in an ordinary user's `PATH`.
const ALSO: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// Messages of programs when the disk is full: the system's, and apt's.
const NO_ROOM: [&str; 2] = ["No space left on device", "You don't have enough free space"];

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It is not installed.
    #[error("the program {tool} is not installed")]
    Missing {
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// It could not be started.
    #[error("could not start {tool}")]
    Spawn {
        /// The program.
        tool: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It ran and failed.
    #[error("{tool} failed ({status}): {said}")]
    Failed {
        /// The program.
        tool: &'static str,
        /// Its exit status, in words.
        status: String,
        /// The last lines it printed.
        said: String,
    },
    /// It ran out of disk space.
    #[error("{tool} failed: no space left on the disk")]
    DiskFull {
        /// The program.
        tool: &'static str,
    },
}

impl Explain for ToolError {
    fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::ToolMissing,
            Self::Spawn { source, .. } => Code::of_io(source),
            Self::Failed { .. } => Code::ToolFailed,
            Self::DiskFull { .. } => Code::DiskFull,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Missing { package, .. } => Some(format!("install it: sudo apt-get install {package}")),
            Self::DiskFull { .. } => Some("free some disk space and try again".to_owned()),
            Self::Spawn { .. } | Self::Failed { .. } => None,
        }
    }
}

/// An installed program.
#[derive(Clone, Debug)]
pub struct Tool {
    name: &'static str,
    path: PathBuf,
}

impl Tool {
    /// Finds a program in `PATH` or in the administrators' directories.
    pub fn find(name: &'static str, package: &'static str) -> Result<Self, ToolError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::find_in(name, package, &path)
    }

    /// Finds a program in the given search path or in the administrators' directories.
    pub fn find_in(
        name: &'static str,
        package: &'static str,
        search_path: &OsStr,
    ) -> Result<Self, ToolError> {
        std::env::split_paths(search_path)
            .chain(ALSO.into_iter().map(PathBuf::from))
            .map(|directory| directory.join(name))
            .find(|path| is_program(path))
            .map(|path| Self { name, path })
            .ok_or(ToolError::Missing { tool: name, package })
    }

    /// The program's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command with an English locale, no input, and a `PATH` with administrators' programs.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command.env("PATH", helpers_path());
        // Our own umask is too restrictive for the files of an image.
        // SAFETY: umask is safe between fork and exec, and touches nothing of ours.
        unsafe {
            command.pre_exec(|| {
                rustix::process::umask(Mode::from_raw_mode(0o022));
                Ok(())
            })
        };
        command
    }

    /// Runs a command of this tool; any exit status that `accept` rejects is an error.
    pub fn run(&self, command: &mut Command, accept: impl Fn(i32) -> bool) -> Result<Output, ToolError> {
        let output = command.output().map_err(|source| ToolError::Spawn { tool: self.name, source })?;
        if output.status.code().is_some_and(accept) {
            return Ok(output);
        }
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        Err(self.failure(output.status.to_string(), &said))
    }

    /// The error for a run that ended with `status` after printing `said`.
    pub fn failure(&self, status: String, said: &str) -> ToolError {
        if NO_ROOM.iter().any(|sign| said.contains(sign)) {
            return ToolError::DiskFull { tool: self.name };
        }
        ToolError::Failed { tool: self.name, status, said: last_lines(said) }
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn helpers_path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    for directory in ALSO {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(directory);
    }
    path
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(8);
    if lines.is_empty() { "it printed nothing".to_owned() } else { lines[from..].join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_administrator_is_found_without_path() {
        assert!(Tool::find_in("mke2fs", "e2fsprogs", OsStr::new("/nonexistent")).is_ok());
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = Tool::find("no-such-program", "no-such-package").unwrap_err();
        assert_eq!(error.code(), Code::ToolMissing);
        assert!(error.remedy().unwrap().contains("apt-get install no-such-package"));
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let tool = Tool::find("sh", "dash").unwrap();
        let run =
            |script: &str| tool.run(tool.command().arg("-c").arg(script), |code| code == 0).unwrap_err();
        assert_eq!(run("echo 'write: No space left on device' >&2; exit 1").code(), Code::DiskFull);
        assert_eq!(
            run("echo \"E: You don't have enough free space in /x.\"; exit 100").code(),
            Code::DiskFull
        );
        let other = run("echo broken; exit 3");
        assert_eq!(other.code(), Code::ToolFailed);
        assert!(other.to_string().contains("broken"), "{other}");
    }
}
