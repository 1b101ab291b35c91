//! Testing whether QEMU can be isolated on this host.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use agentiso_core::{Code, Explain};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::plan::SameUser;
use super::{Access, Entry, Shown, landlock, program};
use crate::probe::boot_id;
use crate::qemu::{EntryMonitor, Qemu, spawner};

/// Why a QEMU cannot be isolated here.
#[derive(Debug, thiserror::Error)]
#[error("QEMU cannot be isolated from its host: could not {doing}")]
pub struct NotIsolated {
    doing: String,
    as_user: bool,
    #[source]
    cause: io::Error,
}

/// Isolates the QEMUs of an installation.
#[derive(Debug)]
pub struct Isolation {
    program: Vec<Shown>,
    as_user: bool,
    landlock: Option<u32>,
}

/// What is tested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trial {
    /// Entering a private root.
    Enter,
    /// Running QEMU there.
    Run,
}

/// The error with which a child reports that it has entered its root. Nothing else it does fails with this error.
const THERE: Errno = Errno::CANCELED;

/// A successful test, which is valid until the host reboots or QEMU changes.
#[derive(Deserialize, Eq, PartialEq, Serialize)]
struct Tried {
    key: String,
}

impl Isolation {
    /// Tests whether QEMU runs isolated here by asking it for its version. Success is cached in `cache`; entering a
    /// private root is tested every time.
    pub fn find(qemu: &Qemu, cache: &Path) -> Result<Self, NotIsolated> {
        let found = Self::for_program(qemu);
        let user = rustix::process::geteuid().as_raw();
        let tried = Tried { key: format!("{} {} {user} {:?}", boot_id(), qemu.identity, found.landlock) };
        let known = fs::read(cache).ok().and_then(|text| serde_json::from_slice::<Tried>(&text).ok());
        if known.is_none_or(|known| known != tried) {
            found.try_out(&qemu.path, Trial::Run)?;
            // A failure only means another test.
            let _ =
                serde_json::to_vec(&tried).map_err(io::Error::other).and_then(|text| fs::write(cache, text));
        } else {
            found.try_out(&qemu.path, Trial::Enter)?;
        }
        Ok(found)
    }

    fn for_program(qemu: &Qemu) -> Self {
        let files = program::files(qemu, &|path| path.exists());
        let program = files.into_iter().map(|path| Shown::in_place(path, Access::Read)).collect();
        let as_user = !rustix::process::geteuid().is_root();
        Self { program, as_user, landlock: landlock::version() }
    }

    /// The version of Landlock it uses, if there is one.
    pub fn landlock(&self) -> Option<u32> {
        self.landlock
    }

    /// Plans a root that contains the program and these files.
    pub(crate) fn entry(&self, files: Vec<Shown>) -> io::Result<Entry> {
        let shown: Vec<Shown> = self.program.iter().cloned().chain(files).collect();
        let same_user = self.as_user.then(|| {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            SameUser {
                uid_map: format!("{uid} {uid} 1").into_bytes(),
                gid_map: format!("{gid} {gid} 1").into_bytes(),
            }
        });
        Entry::plan(&shown, same_user, self.landlock)
    }

    fn try_out(&self, program: &Path, trial: Trial) -> Result<(), NotIsolated> {
        let failed = |doing: String, cause| NotIsolated { doing, as_user: self.as_user, cause };
        let planned =
            self.entry(vec![Shown::in_place("/dev/null", Access::Write)]).and_then(EntryMonitor::new);
        let (entry, entry_child) = planned.map_err(|error| failed("plan a root for it".to_owned(), error))?;
        let mut command = Command::new(program);
        command.arg("--version").env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec it only makes system calls on what was planned before.
        unsafe {
            command.pre_exec(move || {
                entry_child.enter()?;
                if trial == Trial::Enter { Err(THERE.into()) } else { Ok(()) }
            });
        }
        let mut child = match (spawner::spawn(command).wait(), entry.failed_to()) {
            (Ok(child), _) => child,
            (Err(error), None) if error.raw_os_error() == Some(THERE.raw_os_error()) => return Ok(()),
            (Err(error), step) => {
                return Err(failed(
                    step.unwrap_or_else(|| format!("start {} in it", program.display())),
                    error,
                ));
            }
        };
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(
                format!("run {} in a root of its own", program.display()),
                io::Error::other(format!("it ended with {status}")),
            )),
            Err(error) => Err(failed("wait for it".to_owned(), error)),
        }
    }
}

impl Explain for NotIsolated {
    fn code(&self) -> Code {
        Code::IsolationUnavailable
    }

    fn remedy(&self) -> Option<String> {
        let read = |name: &str| {
            fs::read_to_string(Path::new("/proc/sys").join(name)).ok().map(|text| text.trim().to_owned())
        };
        Some(advice(self.as_user, &read))
    }
}

/// The remedy, depending on the kernel's settings.
fn advice(as_user: bool, setting: &dyn Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let switches = [
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=16384"),
    ];
    let off = switches.iter().filter(|_| as_user).find(|(name, value, _)| is(name, value));
    match off {
        Some((_, _, cure)) => format!(
            "allow user namespaces: sudo sysctl -w {cure}, and for every boot: \
             echo {cure} | sudo tee /etc/sysctl.d/60-agentiso.conf"
        ),
        None if as_user => {
            "run agentiso on a kernel and in a container that allow user namespaces".to_owned()
        }
        None => "run agentiso where root may mount and make namespaces (CAP_SYS_ADMIN)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_is_off_is_named() {
        let on = |_: &str| None;
        let debian = |name: &str| (name == "kernel/unprivileged_userns_clone").then(|| "0".to_owned());
        let ubuntu =
            |name: &str| (name == "kernel/apparmor_restrict_unprivileged_userns").then(|| "1".to_owned());
        assert!(advice(true, &debian).contains("sysctl -w kernel.unprivileged_userns_clone=1"));
        assert!(advice(true, &ubuntu).contains("apparmor_restrict_unprivileged_userns=0"));
        assert!(advice(true, &on).contains("container"));
        assert!(advice(false, &debian).contains("CAP_SYS_ADMIN"));
    }
}
