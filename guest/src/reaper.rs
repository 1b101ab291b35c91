//! Orphans end up with PID 1, and nobody else waits for them.

use std::{mem, ptr};

/// Blocks, in this thread and all it starts, the signals that are waited for instead of handled, and ignores
/// SIGPIPE: a reader that went away is an error of that one write.
pub(crate) fn block_signals() {
    // SAFETY: the set is initialised by sigemptyset before use; SIG_IGN runs no code.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, libc::SIGIO);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Reaps orphans. Must run in the main thread: that is where the kernel puts them. Each worker's own child stays
/// the worker's, whatever happens here.
pub(crate) fn reap_for_ever() -> ! {
    loop {
        reap_what_ended();
        wait_for_child_signal();
    }
}

fn reap_what_ended() {
    let only_mine = libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: a null status and usage are allowed.
    while unsafe { libc::wait4(-1, ptr::null_mut(), only_mine, ptr::null_mut()) } > 0 {}
}

fn wait_for_child_signal() {
    // SAFETY: the set is initialised by sigemptyset before use. The signal is blocked, so one that came since the
    // last look is still pending and ends the wait at once.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigwaitinfo(&set, ptr::null_mut());
    }
}
