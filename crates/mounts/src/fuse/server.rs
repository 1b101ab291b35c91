//! The server process, from its start to its end.
//!
//! ```text
//! start fusermount3, which waits ──► own namespaces ──► overlay, in them only ──► no privileges ──► fusermount3 mounts ──► serve
//!                                                                                                        │ killed: it unmounts
//! ```

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::RwLock;

use fuser::{Config, Session, SessionACL};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::filesystem::Overlaid;
use super::handles::Handles;
use super::mount::Prepared;
use super::nodes::Nodes;
use crate::error::MountError;
use crate::namespace::Namespaces;
use crate::overlay::Overlay;

const THREADS: usize = 4;
/// Descriptors that are not for nodes: handles, and our own.
const OTHER_FILES: u64 = 4096;

/// What is served, and where.
pub(crate) struct Serving {
    pub(crate) overlay: Overlay,
    /// A private, empty directory on which the overlay is mounted.
    pub(crate) merged: PathBuf,
    pub(crate) point: PathBuf,
    pub(crate) read_only: bool,
}

/// Serves until it is unmounted. The calling process must have one thread. `ready` is called when the mount works.
pub(crate) fn serve(serving: &Serving, ready: impl FnOnce()) -> Result<(), MountError> {
    let is_root = rustix::process::geteuid().is_root();
    let budget = raise_limit();
    rustix::process::umask(Mode::empty());
    let prepared = Prepared::start(&serving.point, serving.read_only, is_root)?;
    let failed = |what| MountError::os(what, &serving.point);
    Namespaces::as_needed().enter().map_err(failed("create namespaces for"))?;
    serving.overlay.mount(&serving.merged, serving.read_only)?;
    let open = |path: &PathBuf| -> Result<OwnedFd, MountError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).map_err(MountError::os("open", path))
    };
    let upper = if serving.read_only { None } else { Some(open(&serving.overlay.upper)?) };
    let files = Overlaid {
        nodes: Nodes::new(open(&serving.merged)?, budget).map_err(failed("serve"))?,
        handles: Handles::default(),
        upper,
        owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        gives_files: is_root,
        gate_of_moves: RwLock::new(()),
    };
    if !is_root {
        // They came with the user namespace. Permissions are those of the user from here on.
        drop_capabilities().map_err(failed("serve"))?;
    }
    let mounted = prepared.mount(&serving.point)?;
    let acl = if is_root { SessionACL::All } else { SessionACL::Owner };
    let mut config = Config::default();
    config.acl = acl;
    config.n_threads = Some(THREADS);
    let session = Session::from_fd(files, mounted.device, acl, config);
    let session = session.map_err(MountError::io("serve", &serving.point))?;
    ready();
    let ended = session.run().map_err(MountError::io("serve", &serving.point));
    drop(mounted.keep);
    ended
}

/// Allows as many open files as the host permits; returns how many nodes may have one.
fn raise_limit() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum.or(Some(1 << 20));
    let _ = setrlimit(Resource::Nofile, limit);
    let now = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(now.saturating_sub(OTHER_FILES).max(now / 2)).unwrap_or(usize::MAX)
}

fn drop_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Whether a mount answers. One whose server was killed does not, until somebody unmounts it.
pub(crate) fn answers(point: &std::path::Path) -> bool {
    File::open(point).is_ok()
}
