//! Makes an older QEMU open the file behind its private memory for reading.
//!
//! Machines share the memory file of their template. It is mapped privately and no machine may write to it, but QEMU
//! before 9.0 always opens it with `O_RDWR`, which fails for a file that is read-only to it. So the thread that starts
//! QEMU traces it up to that one call and changes the flag:
//!
//! ```text
//!  fork ─► trace me ─► exec ─► (each system call stops) ─► openat(file, O_RDWR ⇒ O_RDONLY) ─► detached
//!                        │                │
//!                        └── exits ───────┴──► left to its owner, who reaps it and reads its log
//! ```
//!
//! Only the main thread of QEMU is traced, and only during the start: some thousand stops, about ten milliseconds.

use std::ffi::CStr;
use std::io;

use libc::{c_int, c_long, c_void, pid_t};

/// More system calls than any QEMU makes before it opens its memory.
const MAX_STOPS: usize = 100_000;
/// What a stop at a system call is reported as, with `PTRACE_O_TRACESYSGOOD`.
const SYSCALL_STOP: c_int = libc::SIGTRAP | 0x80;

/// Why a traced process does not run.
enum Stop {
    /// It is about to enter or leave a system call, or has executed its program.
    Trap(c_int),
    /// It is about to receive this signal.
    Signal(c_int),
    /// It has ended and waits to be reaped.
    Ended,
}

/// Asks the thread that forked this process to trace it from its next exec on. For use between fork and exec.
pub(super) fn ask_for_tracing() -> io::Result<()> {
    // SAFETY: this request takes no addresses.
    check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }).map(drop)
}

/// Traces a process that asked for it until it opens `file` for writing, makes it open the file for reading, and lets it
/// run. Must be called by the thread that forked it. A process that ends meanwhile is not reaped.
pub(super) fn open_read_only(pid: u32, file: &CStr) -> io::Result<()> {
    let pid = pid_t::try_from(pid).map_err(io::Error::other)?;
    if let Stop::Ended = wait(pid)? {
        return Ok(());
    }
    request(libc::PTRACE_SETOPTIONS, pid, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL)?;
    let mut signal = 0;
    for _ in 0..MAX_STOPS {
        request(libc::PTRACE_SYSCALL, pid, signal)?;
        signal = match wait(pid)? {
            Stop::Ended => return Ok(()),
            Stop::Signal(number) => number,
            Stop::Trap(SYSCALL_STOP) if change_open(pid, file)? => {
                return request(libc::PTRACE_DETACH, pid, 0);
            }
            Stop::Trap(_) => 0,
        };
    }
    request(libc::PTRACE_DETACH, pid, 0)
}

/// Changes the call a process is about to make, if that opens the file for writing. Returns whether it did.
fn change_open(pid: pid_t, file: &CStr) -> io::Result<bool> {
    let mut registers = registers(pid)?;
    let entering = registers.rax.cast_signed() == -i64::from(libc::ENOSYS);
    if !entering || registers.orig_rax.cast_signed() != libc::SYS_openat {
        return Ok(false);
    }
    let (path, flags) = (registers.rsi, registers.rdx);
    let (mode, read_write) = (libc::O_ACCMODE as u64, libc::O_RDWR as u64);
    if flags & mode != read_write || !is_at(pid, path, file) {
        return Ok(false);
    }
    registers.rdx = (flags & !mode) | libc::O_RDONLY as u64;
    // SAFETY: the kernel reads one structure of this type from the address.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &raw const registers) };
    check(set).map(|_| true)
}

fn registers(pid: pid_t) -> io::Result<libc::user_regs_struct> {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel writes one structure of this type to the address.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, registers.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so the structure was written.
    Ok(unsafe { registers.assume_init() })
}

/// Whether a process has this text at an address. A text that cannot be read is another one.
fn is_at(pid: pid_t, address: u64, text: &CStr) -> bool {
    let expected = text.to_bytes_with_nul();
    let mut found = vec![0u8; expected.len()];
    let local = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: found.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: expected.len() };
    // SAFETY: the kernel writes at most as many bytes as `found` has; the remote address is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).is_ok_and(|read| read == expected.len()) && found == expected
}

/// Waits until a traced process stops or ends. One that has ended stays to be reaped.
fn wait(pid: pid_t) -> io::Result<Stop> {
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WSTOPPED | libc::__WALL;
    loop {
        // SAFETY: the kernel writes one structure of this type to the address.
        let waited = unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), flags | libc::WNOWAIT) };
        match check(waited.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        break;
    }
    // SAFETY: it was zeroed, which is valid, and written by the successful call.
    let info = unsafe { info.assume_init() };
    // SAFETY: `waitid` fills in the fields of SIGCHLD.
    let status = unsafe { info.si_status() };
    Ok(match (info.si_code, status) {
        (libc::CLD_TRAPPED, SYSCALL_STOP | libc::SIGTRAP) => Stop::Trap(status),
        (libc::CLD_TRAPPED | libc::CLD_STOPPED, signal) => Stop::Signal(signal),
        _ => Stop::Ended,
    })
}

/// A request of which the last argument is a number.
fn request(request: libc::c_uint, pid: pid_t, argument: c_int) -> io::Result<()> {
    // SAFETY: these requests take no addresses.
    check(unsafe { libc::ptrace(request, pid, 0, c_long::from(argument)) }).map(drop)
}

fn check(returned: c_long) -> io::Result<c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Runs a shell script with `file` as its first argument, traced.
    fn traced(script: &str, file: &Path, watched: &Path) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]).arg(file).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: it only makes a system call.
        unsafe { command.pre_exec(ask_for_tracing) };
        let child = command.spawn().unwrap();
        open_read_only(child.id(), &CString::new(watched.as_os_str().as_bytes()).unwrap()).unwrap();
        child.wait_with_output().unwrap()
    }

    #[test]
    fn a_file_that_is_opened_for_reading_and_writing_is_opened_for_reading() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ram");
        fs::write(&file, "base\n").unwrap();
        let output = traced("exec 3<>\"$1\"; cat <&3; echo spoilt >&3", &file, &file);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "base\n");
        assert!(!output.status.success(), "writing must fail");
        assert_eq!(fs::read(&file).unwrap(), b"base\n");
    }

    #[test]
    fn other_files_are_opened_as_asked_and_only_the_first_open_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("ram"), dir.path().join("ram2"));
        fs::write(&file, "base\n").unwrap();
        fs::write(&other, "").unwrap();
        let script = "exec 3<>\"${1}2\"; echo other >&3; exec 4<>\"$1\"; exec 5<>\"$1\"; echo again >&5";
        assert!(traced(script, &file, &file).status.success());
        assert_eq!(fs::read(&other).unwrap(), b"other\n");
        assert_eq!(fs::read(&file).unwrap(), b"again\n");
    }

    #[test]
    fn a_process_that_ends_first_keeps_its_exit_status() {
        let dir = tempfile::tempdir().unwrap();
        let output = traced("exit 7", dir.path(), &dir.path().join("never"));
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn signals_reach_a_traced_process() {
        let dir = tempfile::tempdir().unwrap();
        let output =
            traced("trap 'exit 9' TERM; kill -TERM $$; exit 1", dir.path(), &dir.path().join("never"));
        assert_eq!(output.status.code(), Some(9));
    }
}
