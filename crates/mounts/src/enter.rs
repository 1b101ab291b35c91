//! A command in a mount namespace of its own, in which a working directory is mounted. This is no sandbox: everything else
//! is as it was.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use crate::descriptors::{receive, send};
use crate::error::MountError;
use crate::namespace::Namespaces;
use crate::renames::{RenameStats, RenameSupervisor, install_rename_filter, rename_filter};
use crate::workdir::{Access, WorkDir};

/// What runs, and where.
#[derive(Clone, Debug)]
pub struct Enter<'e> {
    /// The working directory. It must not be in use otherwise.
    pub workdir: &'e WorkDir,
    /// Where the command sees it, and starts: an existing directory.
    pub at: &'e Path,
    /// Program and arguments.
    pub argv: &'e [OsString],
    /// Nothing can be changed.
    pub read_only: bool,
}

/// A command that runs in its namespace.
#[derive(Debug)]
pub struct Entered {
    child: Child,
    supervisor: Option<JoinHandle<io::Result<RenameStats>>>,
}

impl Entered {
    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process with its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the command. What it left in the background keeps the mount, and its renames of directories are served for
    /// as long as this process lives.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Waits for the command and for everything that it left in the background.
    pub fn wait_for_all(mut self) -> io::Result<(ExitStatus, RenameStats)> {
        let status = self.child.wait()?;
        let stats = match self.supervisor.take() {
            Some(thread) => thread.join().map_err(|_| io::Error::other("the supervisor panicked"))??,
            None => RenameStats::default(),
        };
        Ok((status, stats))
    }
}

/// Starts a command in a new mount namespace, and a user namespace if the caller is not root. `prepare` sets environment,
/// standard streams and the like.
pub fn enter(what: &Enter<'_>, prepare: impl FnOnce(&mut Command)) -> Result<Entered, MountError> {
    let Some((program, arguments)) = what.argv.split_first() else {
        return Err(MountError::invalid("the command", "it is empty"));
    };
    if !what.at.is_dir() {
        return Err(MountError::NotFound { what: format!("the directory {}", what.at.display()) });
    }
    let at = std::path::absolute(what.at).map_err(MountError::io("find", what.at))?;
    let setup = Setup::new(&what.workdir.access()?, &at, what.read_only)?;
    let has_supervisor = setup.filter.is_some();
    let (ours, theirs) = UnixStream::pair().map_err(MountError::io("create a socket for", &at))?;
    let mut command = Command::new(program);
    command.args(arguments);
    prepare(&mut command);
    // SAFETY: the closure only makes system calls with what was prepared before the fork.
    unsafe { command.pre_exec(move || setup.apply(theirs.as_fd())) };
    let child = command.spawn().map_err(MountError::io("start", Path::new(program)))?;
    // Closes our copy of the child's end.
    drop(command);
    let mut entered = Entered { child, supervisor: None };
    if has_supervisor {
        let listener = receive(&ours).map_err(MountError::io("supervise", Path::new(program)))?;
        let supervisor = RenameSupervisor::new(listener, &at);
        let thread = std::thread::Builder::new().name("renames".to_owned()).spawn(move || supervisor.run());
        entered.supervisor = Some(thread.map_err(MountError::io("supervise", Path::new(program)))?);
    }
    Ok(entered)
}

/// What the child does between fork and exec.
struct Setup {
    namespaces: Namespaces,
    source: CString,
    at: CString,
    /// The options of the overlay, or nothing for a plain directory.
    data: Option<CString>,
    read_only: bool,
    filter: Option<Vec<libc::sock_filter>>,
}

impl Setup {
    fn new(access: &Access, at: &Path, read_only: bool) -> Result<Self, MountError> {
        let (source, data) = match access {
            Access::Overlay(overlay) if read_only => ("overlay".into(), Some(overlay.read_only_data()?)),
            Access::Overlay(overlay) => ("overlay".into(), Some(overlay.data()?)),
            Access::Directory(path) => (path.clone(), None),
        };
        let text = |path: &Path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|_| MountError::invalid(path.display(), "it contains NUL"))
        };
        // Without user extended attributes, root's overlay renames directories itself.
        let needs_filter = matches!(access, Access::Overlay(overlay) if overlay.userxattr) && !read_only;
        Ok(Self {
            namespaces: Namespaces::as_needed(),
            source: text(&source)?,
            at: text(at)?,
            data,
            read_only,
            filter: needs_filter.then(rename_filter),
        })
    }

    fn apply(&self, socket: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.namespaces.enter()?;
        let flags = if self.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        match &self.data {
            Some(data) => mount(&*self.source, &*self.at, c"overlay", flags, Some(data.as_c_str()))?,
            None => {
                mount_bind(&*self.source, &*self.at)?;
                if self.read_only {
                    mount_remount(&*self.at, MountFlags::BIND | MountFlags::RDONLY, c"")?;
                }
            }
        }
        rustix::process::chdir(&*self.at)?;
        if let Some(filter) = &self.filter {
            rustix::thread::set_no_new_privs(true)?;
            let listener = install_rename_filter(filter)?;
            send(socket, listener.as_fd())?;
        }
        Ok(())
    }
}
