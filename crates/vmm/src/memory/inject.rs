//! Making a process open a userfaultfd for itself.
//!
//! A userfaultfd belongs to the address space of the process that opens it, and QEMU opens none. So one of QEMU's threads
//! is stopped for a fraction of a millisecond, made to execute this one system call, and resumed:
//!
//! ```text
//!   seize ─► interrupt ─► stopped in futex() ─► registers set ─► one step: userfaultfd() ─► registers restored ─► detach
//!      any failure, or the end of our thread: ─────────────────────────────────────────────► detach
//! ```
//!
//! The chosen thread waits for a futex, as QEMU's RCU thread usually does. If this process is killed in the middle, the
//! wait only returns early, which every futex wait must handle. The main thread is never chosen, because its stops would
//! be reported to its parent.

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// How long the thread may take to stop.
const LIMIT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// The machine instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Track only user-mode faults, which needs no privilege.
const USER_MODE_ONLY: i32 = 1;

/// Makes a process open a userfaultfd. Returns its number in that process.
pub(super) fn open_userfaultfd(pid: i32) -> io::Result<RawFd> {
    let thread = waiting_thread(pid)?;
    // The kernel detaches a thread's tracees when it ends, so nothing stays stopped if this fails.
    std::thread::scope(|scope| scope.spawn(|| borrow(pid, thread)).join())
        .unwrap_or_else(|_| Err(io::Error::other("tracking the guest's memory failed")))
}

/// Finds a thread that waits for a futex, other than the main thread.
fn waiting_thread(pid: i32) -> io::Result<i32> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Some(thread) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let waits = || {
            let call = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
            call.split(' ').next().and_then(|number| number.parse().ok()) == Some(libc::SYS_futex)
        };
        if thread != pid && waits() {
            return Ok(thread);
        }
    }
    Err(io::Error::other("no thread of QEMU is idle"))
}

fn borrow(pid: i32, thread: i32) -> io::Result<RawFd> {
    request(libc::PTRACE_SEIZE, thread, 0, 0)?;
    let mut borrowed = Borrowed { thread, registers: None, signal: 0 };
    request(libc::PTRACE_INTERRUPT, thread, 0, 0)?;
    borrowed.stopped()?;
    let before = registers(thread)?;
    let call_at = before.rip.wrapping_sub(SYSCALL.len() as u64);
    if before.orig_rax as i64 != libc::SYS_futex || instruction(pid, call_at)? != SYSCALL {
        return Err(io::Error::other("the thread of QEMU is no longer idle"));
    }
    borrowed.registers = Some(before);
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
    let call = libc::user_regs_struct {
        rip: call_at,
        rax: libc::SYS_userfaultfd as u64,
        rdi: flags as u64,
        // Otherwise the kernel would restart the interrupted call.
        orig_rax: u64::MAX,
        ..before
    };
    set_registers(thread, &call)?;
    request(libc::PTRACE_SINGLESTEP, thread, 0, 0)?;
    borrowed.stopped()?;
    let result = registers(thread)?.rax as i64;
    if result < 0 {
        return Err(io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL)));
    }
    RawFd::try_from(result).map_err(io::Error::other)
}

/// A traced thread. Dropping it restores its registers and detaches.
struct Borrowed {
    thread: i32,
    registers: Option<libc::user_regs_struct>,
    /// A signal that arrived for the thread in the meantime.
    signal: i32,
}

impl Borrowed {
    /// Waits until it has stopped.
    fn stopped(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the status.
            let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
            match waited {
                0 if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                0 => return Err(io::ErrorKind::TimedOut.into()),
                -1 => return Err(io::Error::last_os_error()),
                _ if libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP => return Ok(()),
                _ if libc::WIFSTOPPED(status) => {
                    self.signal = libc::WSTOPSIG(status);
                    return Err(io::Error::other("a signal came in between"));
                }
                _ => return Err(io::Error::other("the thread of QEMU has ended")),
            }
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(registers) = &self.registers {
            let _ = set_registers(self.thread, registers);
        }
        // Fails if it is not stopped or has ended; then the kernel detaches it when this thread ends.
        let _ = request(libc::PTRACE_DETACH, self.thread, 0, self.signal as usize);
    }
}

fn registers(thread: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, thread, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

fn set_registers(thread: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, thread, 0, std::ptr::from_ref(registers) as usize)
}

fn request(what: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: of the requests used here only PTRACE_GETREGS and PTRACE_SETREGS touch our memory, and their callers pass
    // the address of a structure of registers that lives until the call returns.
    let done = unsafe { libc::ptrace(what, thread, address, data) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn instruction(pid: i32, address: u64) -> io::Result<[u8; 2]> {
    let mut bytes = [0; 2];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` is the two bytes above; the remote side is another process's.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    if copied == 2 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
