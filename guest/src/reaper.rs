//! Reaps orphans, which the kernel reparents to PID 1.

use std::{mem, ptr};

/// Blocks the signals that the agent waits for, in this thread and all threads it starts. Ignores SIGPIPE: a closed
/// reader is an error of that write.
pub(crate) fn block_signals() {
    // SAFETY: sigemptyset initialises the set before use; SIG_IGN runs no code.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, libc::SIGIO);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Reaps orphans. Must run in the main thread, to which the kernel reparents them. Does not reap children that workers
/// started.
pub(crate) fn reap_for_ever() -> ! {
    loop {
        reap_what_ended();
        wait_for_child_signal();
    }
}

fn reap_what_ended() {
    let only_mine = libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: null pointers for status and usage are allowed.
    while unsafe { libc::wait4(-1, ptr::null_mut(), only_mine, ptr::null_mut()) } > 0 {}
}

fn wait_for_child_signal() {
    // SAFETY: sigemptyset initialises the set before use. The signal is blocked, so one that arrived since the last
    // check is still pending and ends the wait immediately.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigwaitinfo(&set, ptr::null_mut());
    }
}
