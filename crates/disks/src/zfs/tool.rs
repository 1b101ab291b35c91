//! Running `zfs` and `zpool`, and classifying their errors.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_core::ports::ZpoolError;

use super::name::dataset_of;

/// The directories of the tools, which may not be in an ordinary user's `PATH`.
const ALSO: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// One call of a tool.
#[derive(Debug)]
pub(super) struct Call<'a> {
    tool: &'static str,
    /// Completes "could not ... NAME".
    doing: &'static str,
    name: &'a str,
}

/// A call of `zfs` to do something with a dataset.
pub(super) fn zfs<'a>(doing: &'static str, name: &'a str) -> Call<'a> {
    Call { tool: "zfs", doing, name }
}

/// A call of `zpool` to do something with a zpool.
pub(super) fn zpool<'a>(doing: &'static str, name: &'a str) -> Call<'a> {
    Call { tool: "zpool", doing, name }
}

impl Call<'_> {
    /// Runs it and returns its output.
    pub(super) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, ZpoolError> {
        let program = find(self.tool).ok_or(ZpoolError::ToolMissing(self.tool))?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("LC_ALL", "C").stdin(Stdio::null());
        let output = command.output().map_err(|error| self.failed(error.to_string()))?;
        if output.status.success() {
            return String::from_utf8(output.stdout).map_err(|error| self.failed(error.to_string()));
        }
        Err(self.explain(&String::from_utf8_lossy(&output.stderr)))
    }

    fn failed(&self, said: String) -> ZpoolError {
        ZpoolError::Failed { doing: self.doing, name: self.name.to_owned(), said }
    }

    /// The tools have one exit status for all errors; only the messages differ.
    fn explain(&self, said: &str) -> ZpoolError {
        let (doing, name) = (self.doing, self.name.to_owned());
        let said = said.trim().lines().collect::<Vec<_>>().join("; ");
        let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
        if says(&["out of space", "No space left", "quota exceeded"]) {
            ZpoolError::Full { name, free: 0, needed: 1 }
        } else if says(&["busy", "in use"]) {
            ZpoolError::Busy { doing, name }
        } else if says(&["ermission denied", "not permitted"]) {
            ZpoolError::NotPermitted { doing, dataset: dataset_of(&name).to_owned(), name, said }
        } else if says(&[
            "does not exist",
            "no such pool",
            "no pools available",
            "I/O is currently suspended",
            "pool or dataset is not available",
            "modules are not loaded",
            "module is not loaded",
            "/dev/zfs",
        ]) {
            ZpoolError::Unavailable { doing, name, said }
        } else {
            ZpoolError::Failed { doing, name, said }
        }
    }
}

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
    let also = ALSO.iter().map(|place| Path::new(place).to_owned());
    places.chain(also).map(|place| place.join(tool)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::{Code, Explain};

    #[test]
    fn what_the_tools_say_becomes_a_stable_code_with_a_remedy() {
        let cases = [
            ("cannot create snapshot 'tank/a@b': out of space", Code::DiskFull),
            ("cannot destroy 'tank/a': dataset is busy", Code::Io),
            ("cannot open 'tank/a': dataset does not exist", Code::StorageUnavailable),
            ("cannot open 'tank': no such pool", Code::StorageUnavailable),
            ("cannot create 'tank/a': no such pool 'tank'", Code::StorageUnavailable),
            ("cannot create 'tank/a': permission denied", Code::PermissionDenied),
            (
                "The ZFS modules are not loaded.\nTry running '/sbin/modprobe zfs' as root to load them.",
                Code::StorageUnavailable,
            ),
        ];
        for (said, code) in cases {
            let error = zfs("make", "tank/a").explain(said);
            assert_eq!(error.code(), code, "{said}");
            assert!(error.remedy().is_some(), "{said}");
        }
        let other = zfs("make", "tank/a").explain("cannot do that: because\nof this");
        assert_eq!(other.code(), Code::ToolFailed);
        assert_eq!(other.to_string(), "could not make tank/a: cannot do that: because; of this");
    }

    #[test]
    fn a_tool_that_is_missing_is_told_from_one_that_fails() {
        let missing = Call { tool: "no-such-tool", doing: "make", name: "tank/a" }.run(&["list"]);
        assert_eq!(missing.unwrap_err().code(), Code::ToolMissing);
    }
}
