//! Making, listing and ending mounts.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use agentiso_store::TreeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::syncfs;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::launch::Launcher;
use super::record::{By, MountInfo, MountState, Record};
use super::table::{mounted_type, start_time};
use crate::error::MountError;
use crate::files::{boot_id, names, private_directory, random_name, wait_lock};
use crate::fuse::answers;
use crate::ingest::{IngestOptions, Ingested};
use crate::layouts::{mark, unmark};
use crate::support::fusermount;
use crate::workdir::{Access, Kind, WorkDir, WorkDirOptions, WorkDirs};

const SUFFIX: &str = ".json";
/// How long a server may take to end after its mount is gone.
const END_OF_SERVER: Duration = Duration::from_secs(30);

/// What to mount.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The tree. The caller keeps it in the store meanwhile.
    pub tree: TreeId,
    /// An existing, empty directory.
    pub point: PathBuf,
    /// What the caller wants to know when it lists mounts. At most 1,024 bytes.
    pub label: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// What the mount is made of.
    pub by: By,
}

/// The mounts of one installation.
#[derive(Clone, Debug)]
pub struct Mounts {
    directory: PathBuf,
    workdirs: WorkDirs,
    launcher: Launcher,
}

impl Mounts {
    /// Opens the records of mounts, creating their directory if necessary.
    pub fn open(directory: &Path, workdirs: &WorkDirs, launcher: Launcher) -> Result<Self, MountError> {
        private_directory(directory)?;
        let directory = std::path::absolute(directory).map_err(MountError::io("find", directory))?;
        Ok(Self { directory, workdirs: workdirs.clone(), launcher })
    }

    /// Mounts a tree with a writable layer. Returns when it works.
    pub fn mount(&self, request: &MountRequest) -> Result<MountInfo, MountError> {
        let by = self.settle(request)?;
        let point = fs::canonicalize(&request.point).map_err(MountError::io("find", &request.point))?;
        let _lock = self.lock()?;
        self.clean()?;
        require_empty(&point)?;
        let kind = match by {
            By::Overlay => Kind::OverlayOfRoot,
            By::Plain => Kind::Plain,
            By::Fuse | By::Auto => Kind::Overlay,
        };
        let options = WorkDirOptions { label: request.label.clone(), kind };
        let workdir = self.workdirs.create(request.tree, &options)?;
        let info = MountInfo {
            point,
            label: request.label.clone(),
            tree: request.tree,
            workdir: workdir.name().to_owned(),
            read_only: request.read_only,
            by,
            server: None,
            state: MountState::Live,
        };
        let id = random_name()?;
        let record_path = self.record_path(&id);
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let record = Record::new(
            &info,
            boot_id(),
            bytes(self.workdirs.store().root()),
            bytes(self.workdirs.layouts().directory()),
            bytes(self.workdirs.directory()),
        );
        record.write(&record_path)?;
        let name = info.workdir.clone();
        let mounted = match by {
            By::Overlay => self.by_kernel(&workdir, &info),
            By::Plain => self.by_link(&workdir, &info),
            By::Fuse | By::Auto => {
                // The server takes it over.
                drop(workdir);
                self.launcher.start(&record_path, &self.directory.join("server.log"))
            }
        };
        if let Err(error) = mounted {
            // Nothing was written to it yet.
            self.undo(&info, &record_path, &name)?;
            return Err(error);
        }
        let record = Record::read(&record_path)?.unwrap_or(record);
        record.info(&record_path, MountState::Live)
    }

    /// What is used, or why it cannot be.
    fn settle(&self, request: &MountRequest) -> Result<By, MountError> {
        let support = self.workdirs.support();
        let fuse = || support.overlay().clone().and_then(|()| support.fuse().clone());
        let refuse = |what, reason: String| Err(MountError::Unsupported { what, reason });
        match request.by {
            By::Auto if support.direct().is_ok() => Ok(By::Overlay),
            By::Auto if fuse().is_ok() => Ok(By::Fuse),
            By::Auto if request.read_only => refuse("a read-only mount", fuse().err().unwrap_or_default()),
            By::Auto | By::Plain => Ok(By::Plain),
            By::Overlay => {
                support.direct().clone().map(|()| By::Overlay).or_else(|reason| refuse("an overlay", reason))
            }
            By::Fuse => fuse().map(|()| By::Fuse).or_else(|reason| refuse("a mount over FUSE", reason)),
        }
    }

    fn by_kernel(&self, workdir: &WorkDir, info: &MountInfo) -> Result<(), MountError> {
        let Access::Overlay(overlay) = workdir.access()? else {
            return Err(MountError::invalid("the working directory", "it is no overlay"));
        };
        // Marked first: what is marked and not mounted is cleaned up, and what is mounted must be marked.
        self.workdirs.set_mounted(&info.workdir, true)?;
        workdir.each_layout(|layout| mark(layout, &info.workdir))?;
        overlay.mount(&info.point, info.read_only)
    }

    fn by_link(&self, workdir: &WorkDir, info: &MountInfo) -> Result<(), MountError> {
        if info.read_only {
            let reason = "a plain directory can always be written to".to_owned();
            return Err(MountError::Unsupported { what: "a read-only mount", reason });
        }
        let Access::Directory(path) = workdir.access()? else {
            return Err(MountError::invalid("the working directory", "it is an overlay"));
        };
        self.workdirs.set_mounted(&info.workdir, true)?;
        fs::remove_dir(&info.point).map_err(MountError::io("replace", &info.point))?;
        symlink(path, &info.point).map_err(MountError::io("create", &info.point))
    }

    /// Ends a mount that did not come about.
    fn undo(&self, info: &MountInfo, record_path: &Path, workdir: &str) -> Result<(), MountError> {
        if info.by == By::Plain && fs::symlink_metadata(&info.point).is_err() {
            fs::create_dir(&info.point).map_err(MountError::io("create", &info.point))?;
        }
        self.release(workdir)?;
        remove_file(record_path)?;
        match self.workdirs.claim(workdir) {
            Ok(workdir) => workdir.remove(),
            // A server that still ends has it. It is abandoned then, and empty.
            Err(MountError::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All mounts. Those that are dead are cleaned up and named once more; their working directories are abandoned ones.
    pub fn list(&self) -> Result<Vec<MountInfo>, MountError> {
        let _lock = self.lock()?;
        let dead = self.clean()?;
        let mut all = Vec::new();
        for (path, record) in self.records()? {
            all.push(record.info(&path, MountState::Live)?);
        }
        all.extend(dead);
        all.sort_by(|a, b| a.point.cmp(&b.point));
        Ok(all)
    }

    /// Reads the changes of a mount into a new tree, while it is used. What programs have written to mapped files is included.
    pub fn ingest(&self, point: &Path, options: &IngestOptions<'_>) -> Result<Ingested, MountError> {
        let (_, record) = self.find(point)?;
        let root = File::open(record.point()).map_err(MountError::io("open", point))?;
        syncfs(&root).map_err(MountError::os("flush", point))?;
        self.workdirs.visit(&record.workdir)?.ingest(options)
    }

    /// Ends a mount and returns its working directory, with all changes: ingest it, record the tree, and remove it. Files
    /// that are open make it fail; `lazy` takes it away from the tree of directories all the same, and waits for the server
    /// only as long as a server needs without them.
    pub fn unmount(&self, point: &Path, lazy: bool) -> Result<WorkDir, MountError> {
        let _lock = self.lock()?;
        let (path, record) = self.find(point)?;
        self.detach(&record, lazy)?;
        if let Some((pid, time)) = record.server {
            wait_for_end(pid, time, &record.point())?;
        }
        self.release(&record.workdir)?;
        let workdir = self.workdirs.claim(&record.workdir)?;
        remove_file(&path)?;
        Ok(workdir)
    }

    fn detach(&self, record: &Record, lazy: bool) -> Result<(), MountError> {
        let point = record.point();
        match record.by {
            By::Plain => self.unlink_point(record),
            By::Overlay if mounted_type(&point)?.as_deref() == Some("overlay") => {
                let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
                unmount(&point, flags).map_err(|error| match error {
                    rustix::io::Errno::BUSY => MountError::busy(point.display()),
                    error => MountError::os("unmount", &point)(error),
                })
            }
            By::Fuse | By::Auto if mounted_type(&point)?.as_deref() == Some("fuse.avfs") => {
                unmount_fuse(&point, lazy)
            }
            // Somebody else has unmounted it.
            _ => Ok(()),
        }
    }

    /// Puts a directory in the place of the link to a plain one.
    fn unlink_point(&self, record: &Record) -> Result<(), MountError> {
        let point = record.point();
        if !self.is_linked(record)? {
            return Ok(());
        }
        fs::remove_file(&point).map_err(MountError::io("remove", &point))?;
        fs::create_dir(&point).map_err(MountError::io("create", &point))
    }

    fn is_linked(&self, record: &Record) -> Result<bool, MountError> {
        let point = record.point();
        let below = self.workdirs.directory().join(&record.workdir);
        match fs::read_link(&point) {
            Ok(target) => Ok(target.starts_with(below)),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(MountError::io("read", &point)(error)),
        }
    }

    /// Cleans up what dead servers, earlier boots and killed commands have left; returns what that was.
    fn clean(&self) -> Result<Vec<MountInfo>, MountError> {
        let mut dead = Vec::new();
        for (path, record) in self.records()? {
            if self.is_live(&record)? {
                // The mark of a plain directory must outlive the boot, as its link does.
                if record.by == By::Plain {
                    self.workdirs.set_mounted(&record.workdir, true)?;
                }
                continue;
            }
            if record.by == By::Fuse && mounted_type(&record.point())?.as_deref() == Some("fuse.avfs") {
                unmount_fuse(&record.point(), true)?;
            }
            self.release(&record.workdir)?;
            dead.push(record.info(&path, MountState::Dead)?);
            remove_file(&path)?;
        }
        Ok(dead)
    }

    fn is_live(&self, record: &Record) -> Result<bool, MountError> {
        let point = record.point();
        match record.by {
            By::Plain => self.is_linked(record),
            _ if record.boot != boot_id() => Ok(false),
            By::Overlay => Ok(mounted_type(&point)?.as_deref() == Some("overlay")),
            By::Fuse | By::Auto => {
                let Some((pid, time)) = record.server else { return Ok(false) };
                Ok(start_time(pid)? == Some(time)
                    && mounted_type(&point)?.as_deref() == Some("fuse.avfs")
                    && answers(&point))
            }
        }
    }

    fn release(&self, workdir: &str) -> Result<(), MountError> {
        self.workdirs.set_mounted(workdir, false)?;
        unmark(self.workdirs.layouts(), workdir)
    }

    fn records(&self) -> Result<Vec<(PathBuf, Record)>, MountError> {
        let mut found = Vec::new();
        for name in names(&self.directory)?.iter().filter(|name| name.ends_with(SUFFIX)) {
            let path = self.directory.join(name);
            found.extend(Record::read(&path)?.map(|record| (path, record)));
        }
        Ok(found)
    }

    /// The record of the mount at a point.
    fn find(&self, point: &Path) -> Result<(PathBuf, Record), MountError> {
        let point = absolute(point)?;
        let found = self.records()?.into_iter().find(|(_, record)| record.point() == point);
        found.ok_or_else(|| MountError::NotFound { what: format!("a mount at {}", point.display()) })
    }

    fn record_path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }

    fn lock(&self) -> Result<File, MountError> {
        wait_lock(&self.directory.join("lock"), true)
    }
}

/// The path of a mount point, which may not answer, or be a link to a plain directory.
fn absolute(point: &Path) -> Result<PathBuf, MountError> {
    let failed = || MountError::io("find", point);
    let absolute = std::path::absolute(point).map_err(failed())?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent).map_err(failed())?.join(name)),
        _ => Ok(absolute),
    }
}

fn require_empty(point: &Path) -> Result<(), MountError> {
    if mounted_type(point)?.is_some() {
        return Err(MountError::busy(format!("the mount point {}", point.display())));
    }
    let mut entries = fs::read_dir(point).map_err(MountError::io("read", point))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(MountError::invalid(point.display(), "the mount point is not empty")),
    }
}

fn unmount_fuse(point: &Path, lazy: bool) -> Result<(), MountError> {
    let program = fusermount().unwrap_or_else(|| "fusermount3".into());
    let mut command = Command::new(&program);
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(point);
    let output = command.output().map_err(MountError::io("start", &program))?;
    if output.status.success() || mounted_type(point)?.as_deref() != Some("fuse.avfs") {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Err(MountError::busy(point.display()));
    }
    Err(MountError::Mount { point: point.to_owned(), reason: said.trim().to_owned() })
}

/// Waits until a process has ended.
fn wait_for_end(pid: u32, time: u64, point: &Path) -> Result<(), MountError> {
    let end = Instant::now() + END_OF_SERVER;
    let Some(number) = Pid::from_raw(pid as i32) else { return Ok(()) };
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(MountError::os("wait for the server of", point)(error)),
    };
    // The number may have become that of another process.
    if start_time(pid)? != Some(time) {
        return Ok(());
    }
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(MountError::busy(format!("the server of {}", point.display()))),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(MountError::os("wait for the server of", point)(error)),
        }
    }
}

fn remove_file(path: &Path) -> Result<(), MountError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(MountError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
