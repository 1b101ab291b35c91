//! Serves a host on a descriptor, as an ordinary process.

use std::{
    os::fd::{BorrowedFd, RawFd},
    process::ExitCode,
    sync::Arc,
    thread,
};

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit},
};

use crate::{
    agent::Agent,
    link::{Link, Transport},
    log::log,
    reaper, session,
};

/// Serves one host on a connected socket until it disconnects. Does not change the machine it runs on.
pub fn serve_fd(fd: RawFd) -> ExitCode {
    prepare_process();
    if fd < 0 {
        return ExitCode::from(2);
    }
    // SAFETY: the caller passed the number of an open descriptor on the command line; if it is not open, duplicating it
    // fails and it is not used further.
    let given = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(link) = rustix::io::fcntl_dupfd_cloexec(given, 3) else { return ExitCode::from(2) };
    // Become the parent of orphans, like PID 1.
    if let Err(errno) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        log(&format!("cannot adopt orphans: {errno}"));
    }
    let serving = thread::Builder::new().name("link".to_owned()).spawn(move || {
        let agent = Arc::new(Agent::of_process());
        session::serve(&agent, &Arc::new(Link::new(link, Transport::Socket)));
        agent.running.end_all();
        std::process::exit(0)
    });
    match serving {
        Ok(_) => reaper::reap_for_ever(),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Process-wide settings. Must be called before the first thread starts.
pub(crate) fn prepare_process() {
    reaper::block_signals();
    keep_memory();
    // Create files with exactly the requested modes; commands get the usual umask back.
    rustix::process::umask(Mode::empty());
    // A walk holds one descriptor for each level of the tree.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = rustix::process::setrlimit(Resource::Nofile, raised) {
        log(&format!("cannot raise the limit on open files: {errno}"));
    }
}

/// Makes the allocator keep freed memory: returning each frame's memory to the kernel and faulting it in again costs an
/// emulated guest more than processing the frame.
fn keep_memory() {
    const LARGEST_FROM_HEAP: libc::c_int = 1 << 20;
    const KEPT_AT_MOST: libc::c_int = 4 << 20;
    // SAFETY: mallopt takes plain numbers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_FROM_HEAP);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_AT_MOST);
    }
}
