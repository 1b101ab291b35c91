//! The environment of a command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

/// Variables that are harmless and that programs expect: language, time zone, terminal.
const PASSED: [&str; 8] = ["LANG", "LANGUAGE", "LC_ALL", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS"];
const PASSED_PREFIX: &[u8] = b"LC_";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The exact environment of a command: what is not in it does not reach the command.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// The usual environment of a sandbox: `PATH` of the system's programs, `HOME`, `TMPDIR=/tmp`, and of `inherited` only
    /// language, time zone and terminal.
    pub fn standard<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        home: impl Into<OsString>,
        inherited: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let all: Vec<OsString> = PASSED.iter().map(|&name| name.into()).collect();
        let mut env = Self::default().allow(&all, inherited);
        env.set("PATH", PATH);
        env.set("HOME", home);
        env.set("TMPDIR", "/tmp");
        env
    }

    /// Copies those variables of `inherited` whose names are in `names`; those that begin with `LC_` too.
    #[must_use]
    pub fn allow<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        names: &[OsString],
        inherited: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in inherited {
            let name = name.as_ref();
            let is_language = name.as_encoded_bytes().starts_with(PASSED_PREFIX);
            if is_language || names.iter().any(|allowed| allowed == name) {
                self.set(name, value.as_ref());
            }
        }
        self
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Sets a variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set(name, value);
        self
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.variables.remove(name.as_ref());
    }

    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_allowed_is_inherited() {
        let outside = [
            ("LANG", "C.UTF-8"),
            ("LC_TIME", "de_DE"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "/evil.so"),
            ("PATH", "/home/me/bin"),
            ("HOME", "/home/me"),
            ("CI", "1"),
        ];
        let env = Environment::standard("/home/agent", outside);
        let names: Vec<&str> = env.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(names, ["HOME", "LANG", "LC_TIME", "PATH", "TMPDIR"]);
        assert_eq!(env.get("PATH").unwrap(), PATH);
        assert_eq!(env.get("HOME").unwrap(), "/home/agent");
        let env = env.allow(&["CI".into()], outside);
        assert_eq!(env.get("CI").unwrap(), "1");
        assert_eq!(env.get("AWS_SECRET_ACCESS_KEY"), None);
    }
}
