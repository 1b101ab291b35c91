//! Serving on a descriptor as an ordinary process.

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

/// Serves one host on a connected socket until it hangs up, without touching the machine it runs on.
pub fn serve_fd(fd: RawFd) -> ExitCode {
    prepare_process();
    if fd < 0 {
        return ExitCode::from(2);
    }
    // SAFETY: whoever passed the number on the command line left the descriptor open for us; if it is not, the
    // duplication fails and nothing else is done with it.
    let given = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(link) = rustix::io::fcntl_dupfd_cloexec(given, 3) else { return ExitCode::from(2) };
    // Orphans come to us as they come to PID 1.
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

/// What the agent needs of its process whoever started it. Must come before the first thread.
pub(crate) fn prepare_process() {
    reaper::block_signals();
    keep_memory();
    // Modes are exactly those asked for; commands get the usual mask back.
    rustix::process::umask(Mode::empty());
    // A walk holds one descriptor for each level of a deep tree.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = rustix::process::setrlimit(Resource::Nofile, raised) {
        log(&format!("cannot raise the limit of open files: {errno}"));
    }
}

/// Lets the allocator keep what a transfer used: giving every frame's memory back to the kernel and having it
/// cleared and mapped again costs an emulated guest more than the frame itself.
fn keep_memory() {
    const LARGEST_FROM_HEAP: libc::c_int = 1 << 20;
    const KEPT_AT_MOST: libc::c_int = 4 << 20;
    // SAFETY: the settings take plain numbers; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_FROM_HEAP);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_AT_MOST);
    }
}
