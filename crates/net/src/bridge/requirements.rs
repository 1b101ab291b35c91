//! What the back end needs of the host.

use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

use super::{nft, pasta, tap};

/// Programs, and the packages of Debian and Ubuntu that have them.
const PROGRAMS: [(&str, &str); 5] = [
    (nft::PROGRAM, "nftables"),
    (pasta::PROGRAM, "passt"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
];
/// Where programs of administrators are, which are not in everybody's search path.
const MORE_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Something that the back end needs and this host does not have.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the network back end \"bridge\" needs {what}")]
pub struct Missing {
    /// What it is.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Explain for Missing {
    fn code(&self) -> Code {
        Code::NetworkUnavailable
    }

    fn remedy(&self) -> Option<String> {
        Some(format!("{}, or set network.backend = \"user\", which needs none of this", self.fix))
    }
}

/// Everything that is missing.
#[expect(clippy::disallowed_methods, reason = "asks for device nodes and programs, which waits for nothing")]
pub fn missing() -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut needs = |what: &str, fix: String| missing.push(Missing { what: what.to_owned(), fix });
    if !rustix::process::geteuid().is_root() {
        needs("root", "run the daemon as root".to_owned());
    } else if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(tap::DEVICE) {
        let fix =
            format!("load the module with 'modprobe tun', or give the container {} ({error})", tap::DEVICE);
        needs(tap::DEVICE, fix);
    }
    for (program, package) in PROGRAMS {
        if find(program).is_none() {
            needs(&format!("the program {program}"), format!("install {package}"));
        }
    }
    missing
}

/// Fails with the first thing that is missing.
pub fn check() -> Result<(), Missing> {
    missing().into_iter().next().map_or(Ok(()), Err)
}

#[expect(clippy::disallowed_methods, reason = "asks for files, which waits for nothing")]
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|file| Path::is_file(file))
}
