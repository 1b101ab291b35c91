//! Creating processes and keeping descriptors from them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

/// `struct clone_args`, in its first version.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Turns the result of a system call into a `Result`.
pub(crate) fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 { Ok(result) } else { Err(last_error()) }
}

pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Forks with namespaces: `None` in the child. With `CLONE_PARENT` the child is a child of this process's parent.
///
/// # Safety
///
/// The process must have one thread.
pub(crate) unsafe fn fork_with(flags: libc::c_int) -> Result<Option<Pid>, Errno> {
    let exit_signal = if flags & libc::CLONE_PARENT == 0 { libc::SIGCHLD } else { 0 };
    let arguments = CloneArgs {
        flags: u64::from(flags.cast_unsigned()),
        exit_signal: u64::from(exit_signal.cast_unsigned()),
        ..CloneArgs::default()
    };
    // SAFETY: the arguments describe a fork: no shared memory and no new stack. There is one thread, says the caller.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArgs>()) })?;
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

/// Forks: `None` in the child.
///
/// # Safety
///
/// The process must have one thread.
pub(crate) unsafe fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: the caller's promise.
    let pid = check(unsafe { libc::fork() }.into())?;
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: callers own no descriptor in this range, or are about to execute another program.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0u32) }).map(drop)
}

/// Makes `fd` the descriptor `number`, which stays open in the program that is executed.
pub(crate) fn become_descriptor(fd: &OwnedFd, number: i32) -> Result<(), Errno> {
    // SAFETY: this call takes two numbers.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }.into()).map(drop)
}

/// Ends this process without running anything else of it.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: this call does not return.
    unsafe { libc::_exit(status) }
}
