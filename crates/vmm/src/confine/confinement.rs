//! Putting machines into cgroups.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::group::{self, Group};
use super::hierarchy::mount_point;
use super::keeper::Keeper;
use super::limits::disk_under;
use super::manager::{Manager, SLICE};
use super::{ConfineError, IoLimits, Limits};
use crate::hardware::Hardware;

/// How often an attempt is repeated when a cgroup vanishes: systemd removes an empty scope, and others sweep.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// The limits of all machines, from the configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LimitSettings {
    /// Whether a machine that cannot be limited must not start.
    pub required: bool,
    /// Bytes that QEMU may use in addition to the guest's memory.
    pub overhead_bytes: u64,
    /// Bytes per second that a machine may read from the disk.
    pub io_read: Option<u64>,
    /// Bytes per second that a machine may write to the disk.
    pub io_write: Option<u64>,
}

/// Sets the limits of an installation's machines.
#[derive(Debug)]
pub struct Confinement {
    settings: LimitSettings,
    /// The data directory. Traffic to the disk below it is limited.
    home: PathBuf,
    /// The name of the systemd scope that contains all machines.
    scope: String,
    /// The last warning about missing limits.
    said: Mutex<String>,
    keeper: Mutex<Option<Keeper>>,
}

impl Confinement {
    /// For the machines of the installation in `home`.
    pub fn new(home: &Path, settings: LimitSettings) -> Self {
        let named = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        let digest = blake3::hash(named.as_os_str().as_encoded_bytes()).to_hex();
        let scope = format!("agentiso-{}.scope", &digest[..8]);
        Self { settings, home: home.to_owned(), scope, said: Mutex::default(), keeper: Mutex::default() }
    }

    /// Prepares the scope. Errors are reported when the next machine is started.
    pub fn prepare(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_mut().is_some_and(Keeper::is_there) || mount_point().is_err() {
            return;
        }
        // Drop the old one first: both have the same name.
        *keeper = None;
        *keeper = Keeper::start(self).inspect_err(|error| tracing::debug!(%error, "no keeper")).ok();
    }

    /// Puts a process, which waits before exec, into its own cgroup. `None` if that fails and limits are not required.
    ///
    /// After an error the process may be in a cgroup, which must be removed with [`Self::give_up`] once it has ended.
    pub fn admit(&self, name: &str, hardware: Hardware, pid: u32) -> Result<Option<Group>, ConfineError> {
        if self.settings.required {
            return self.admit_all(name, hardware, pid).map(Some);
        }
        match self.try_admit(name, hardware, pid) {
            Ok((group, missing)) => {
                if !missing.is_empty() {
                    self.say_once(&lacking(&group, missing));
                }
                Ok(Some(group))
            }
            Err(error) => {
                self.say_once(&error);
                Ok(None)
            }
        }
    }

    /// The same, but fails if any limit cannot be set.
    pub(super) fn admit_all(&self, name: &str, hardware: Hardware, pid: u32) -> Result<Group, ConfineError> {
        match self.try_admit(name, hardware, pid)? {
            (group, missing) if missing.is_empty() => Ok(group),
            (group, missing) => Err(lacking(&group, missing)),
        }
    }

    /// Removes the cgroup of a process that failed to start.
    pub fn give_up(&self, name: &str) {
        if let Ok(mount) = mount_point() {
            Group::at(mount.join(self.place(Manager::here(uid()).as_ref())).join(name)).remove();
        }
    }

    /// Removes the cgroups of machines that have ended, except those in `keep`.
    pub fn sweep(&self, keep: &[PathBuf]) {
        let Ok(mount) = mount_point() else { return };
        let swept = group::sweep(&mount.join(self.place(Manager::here(uid()).as_ref())), keep);
        if swept > 0 {
            tracing::info!(swept, "removed the cgroups of machines that have ended");
        }
    }

    fn say_once(&self, error: &ConfineError) {
        let text = agentiso_core::chain(error);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != text {
            tracing::warn!("machines run without all of their limits: {text}");
            *said = text;
        }
    }

    /// Puts a process into a cgroup without limits.
    pub(super) fn take_in_unlimited(&self, name: &str, pid: u32) -> Result<Group, ConfineError> {
        self.try_limits(name, &Limits::default(), pid).map(|(group, _)| group)
    }

    fn try_admit(
        &self,
        name: &str,
        hardware: Hardware,
        pid: u32,
    ) -> Result<(Group, Vec<&'static str>), ConfineError> {
        let overhead = self.settings.overhead_bytes;
        let limits = Limits::of(hardware.vcpus, hardware.memory_bytes(), overhead, self.io_limits()?);
        self.try_limits(name, &limits, pid)
    }

    fn try_limits(
        &self,
        name: &str,
        limits: &Limits,
        pid: u32,
    ) -> Result<(Group, Vec<&'static str>), ConfineError> {
        let mount = mount_point()?;
        let manager = Manager::here(uid());
        if manager.is_none() && uid() != 0 {
            return Err(ConfineError::NotRoot);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.admit_once(&mount, manager.as_ref(), name, limits, pid) {
                Err(error) if error.passes() && tries < TRIES => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    }

    fn admit_once(
        &self,
        mount: &Path,
        manager: Option<&Manager>,
        name: &str,
        limits: &Limits,
        pid: u32,
    ) -> Result<(Group, Vec<&'static str>), ConfineError> {
        let mut place = mount.join(self.place(manager));
        let mut controllers: Vec<&'static str> = limits.files().iter().map(|file| file.0).collect();
        controllers.dedup();
        match manager {
            Some(manager) if !place.is_dir() => {
                place = mount.join(manager.start_scope(&self.scope, pid)?);
            }
            Some(_) => {}
            None => self.make_slice(mount, &place, &controllers)?,
        }
        let group = Group::make(place.join(name))?;
        let missing = self.fill(&group, manager, name, limits, &controllers, pid)?;
        Ok((group, missing))
    }

    /// Moves the process first: controllers can be enabled for child cgroups only if the parent has no processes.
    fn fill(
        &self,
        group: &Group,
        manager: Option<&Manager>,
        name: &str,
        limits: &Limits,
        controllers: &[&'static str],
        pid: u32,
    ) -> Result<Vec<&'static str>, ConfineError> {
        match (group.take_in(pid), manager) {
            (Err(error), Some(manager)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                manager.attach(&self.scope, name, pid)?;
            }
            (moved, _) => {
                moved.map_err(ConfineError::io(format!("move a process to {}", group.path().display())))?;
            }
        }
        if let Some(place) = group.path().parent() {
            group::enable(place, controllers)?;
        }
        group.apply(limits)
    }

    /// The path of the scope, below the mount point.
    fn place(&self, manager: Option<&Manager>) -> PathBuf {
        match manager {
            Some(manager) => manager.scope_dir(&self.scope),
            None => Path::new(SLICE).join(&self.scope),
        }
    }

    /// Creates the slice and scope on a host without systemd.
    fn make_slice(
        &self,
        mount: &Path,
        place: &Path,
        controllers: &[&'static str],
    ) -> Result<(), ConfineError> {
        fs::create_dir_all(place).map_err(ConfineError::io(format!("make {}", place.display())))?;
        group::enable(mount, controllers)?;
        group::enable(&mount.join(SLICE), controllers)
    }

    fn io_limits(&self) -> Result<Option<IoLimits>, ConfineError> {
        let LimitSettings { io_read, io_write, .. } = self.settings;
        if io_read.is_none() && io_write.is_none() {
            return Ok(None);
        }
        let about = fs::metadata(&self.home).map_err(ConfineError::io("look at the data directory"))?;
        let device = disk_under(&self.home, about.dev(), Path::new("/sys/dev/block"))?;
        Ok(Some(IoLimits { device, read: io_read, write: io_write }))
    }
}

fn lacking(group: &Group, missing: Vec<&'static str>) -> ConfineError {
    ConfineError::Missing { group: group.path().parent().unwrap_or(group.path()).to_owned(), missing }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confinement(home: &Path) -> Confinement {
        let settings = LimitSettings { required: false, overhead_bytes: 0, io_read: None, io_write: None };
        Confinement::new(home, settings)
    }

    #[test]
    fn each_installation_has_a_scope_of_its_own_and_keeps_it() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(confinement(one.path()).scope, confinement(one.path()).scope);
        assert_ne!(confinement(one.path()).scope, confinement(two.path()).scope);
        let link = two.path().join("link");
        std::os::unix::fs::symlink(one.path(), &link).unwrap();
        assert_eq!(confinement(&link).scope, confinement(one.path()).scope, "by whatever path it is reached");
        let place = confinement(one.path()).place(None);
        assert!(place.starts_with("agentiso.slice"), "{place:?}");
    }
}
