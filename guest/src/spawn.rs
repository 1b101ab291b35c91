//! Starting a process with as little as the kernel needs.
//!
//! The child shares the agent's memory until it executes its program (as with vfork, on a stack of its own), so it
//! may only make system calls: no allocation, no locks, and none of the C library's wrappers that concern all
//! threads of a process.

use std::{
    arch::asm,
    ffi::{CStr, CString, c_char, c_int, c_long, c_void},
    mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::{io::Errno, process::Pid};

use crate::{
    command::Command,
    error::{Outcome, invalid, last_errno, refused, shown},
    identity::Identity,
    stdio::Theirs,
};

const STACK_LEN: usize = 64 * 1024;
const COMMAND_UMASK: c_long = 0o022;

/// The stack of a child between clone and exec; one for each worker.
#[derive(Default)]
pub(crate) struct ChildStack {
    bytes: Vec<u8>,
}

impl ChildStack {
    fn top(&mut self) -> *mut c_void {
        if self.bytes.is_empty() {
            self.bytes = vec![0; STACK_LEN];
        }
        let end = self.bytes.as_mut_ptr_range().end;
        // SAFETY: at most 15 bytes below the end of a longer buffer.
        unsafe { end.sub(end as usize % 16).cast() }
    }
}

/// A started command. Its process must be waited for by the thread that started it.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its process, session and process group.
    pub(crate) pid: Pid,
    /// Readable once it ended.
    pub(crate) pidfd: OwnedFd,
}

/// What the child reads, and where it reports. Everything is prepared before the clone.
struct Plan {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    /// `/bin/sh FILE ARGUMENTS…` for a script that names no interpreter.
    shell_argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    workdir: *const c_char,
    workdir_is_default: bool,
    become_user: Option<(u32, u32, Vec<u32>)>,
    stdio: [c_int; 3],
    terminal: bool,
    failure: Option<(Stage, c_int)>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Session,
    Terminal,
    Stdio,
    User,
    Workdir,
    Program,
}

/// Starts a command, in a session of its own, as `user` if that is somebody else, in a control group if there is one.
pub(crate) fn spawn(
    command: &Command,
    user: Option<&Identity>,
    theirs: &Theirs,
    terminal: bool,
    group: Option<&OwnedFd>,
    stack: &mut ChildStack,
) -> Outcome<Child> {
    let mut plan = Plan {
        candidates: command.candidates.iter().map(|path| path.as_ptr()).collect(),
        argv: null_terminated(&command.argv),
        shell_argv: shell_arguments(&command.argv),
        envp: null_terminated(&command.envp),
        workdir: command.workdir.as_ptr(),
        workdir_is_default: command.workdir_is_default,
        become_user: user.map(|user| (user.uid, user.gid, user.groups.clone())),
        stdio: theirs.fds().map(|fd| fd.as_raw_fd()),
        terminal,
        failure: None,
    };
    let (pid, pidfd) =
        clone(&mut plan, group, stack).map_err(|errno| refused("starting a process", errno))?;
    let Some((stage, errno)) = plan.failure else { return Ok(Child { pid, pidfd }) };
    // SAFETY: a null status and usage are allowed; the child is ours and has ended or is about to.
    unsafe { libc::wait4(pid.as_raw_nonzero().get(), ptr::null_mut(), 0, ptr::null_mut()) };
    Err(explain(stage, Errno::from_raw_os_error(errno), command))
}

fn explain(stage: Stage, errno: Errno, command: &Command) -> agentiso_proto::GuestError {
    let program = || shown(command.argv.first().map_or(b"", |name| name.as_bytes()));
    match stage {
        Stage::Program if errno == Errno::TOOBIG => invalid("the arguments and the environment are too long"),
        Stage::Program => refused(format!("running {}", program()), errno),
        Stage::Workdir => {
            refused(format!("entering the working directory {}", shown(command.workdir.as_bytes())), errno)
        }
        Stage::User => refused("becoming the command's user", errno),
        Stage::Session => refused("starting a session", errno),
        Stage::Terminal => refused("taking the terminal", errno),
        Stage::Stdio => refused("connecting input and output", errno),
    }
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn shell_arguments(argv: &[CString]) -> Vec<*const c_char> {
    const SHELL: &CStr = c"/bin/sh";
    let arguments = argv.iter().skip(1).map(|argument| argument.as_ptr());
    [SHELL.as_ptr(), ptr::null()].into_iter().chain(arguments).chain([ptr::null()]).collect()
}

/// Clones a child that shares memory; returns once it has executed its program or ended.
fn clone(
    plan: &mut Plan,
    group: Option<&OwnedFd>,
    stack: &mut ChildStack,
) -> rustix::io::Result<(Pid, OwnedFd)> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let mut pidfd: c_int = -1;
    // SAFETY: all pointers the child uses are in `plan`, which outlives it, since the kernel holds this thread until
    // the child has executed or ended. The child runs on its own stack. With all signals blocked no handler can run
    // in it. It calls nothing but system calls.
    let cloned = unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let argument: *mut Plan = plan;
        let pid = match group {
            Some(group) => clone_into(group, argument.cast(), stack, flags, &mut pidfd),
            None => libc::clone(child, stack.top(), flags | libc::SIGCHLD, argument.cast(), &mut pidfd),
        };
        let cloned = Pid::from_raw(pid.max(0)).ok_or_else(last_errno);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        cloned
    };
    // SAFETY: with a new child comes a new descriptor, which nobody else knows.
    cloned.map(|pid| (pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// As the C library's `clone`, but the child is in a control group from its first instant: moving it there afterwards
/// makes the kernel wait for all processors, and would leave a moment in which a hold misses it.
///
/// # Safety
///
/// As for `clone`; the stack must not be in use.
unsafe fn clone_into(
    group: &OwnedFd,
    argument: *mut c_void,
    stack: &mut ChildStack,
    flags: c_int,
    pidfd: &mut c_int,
) -> c_int {
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let top = stack.top() as u64;
    // SAFETY: all zeros is a valid request.
    let mut request: libc::clone_args = unsafe { mem::zeroed() };
    request.flags = u64::from(flags.cast_unsigned()) | INTO_CGROUP;
    request.pidfd = ptr::from_mut(pidfd) as u64;
    request.exit_signal = libc::SIGCHLD as u64;
    request.stack = stack.bytes.as_ptr() as u64;
    request.stack_size = top - request.stack;
    request.cgroup = group.as_raw_fd() as u64;
    let mut result = libc::SYS_clone3;
    // SAFETY: the caller's promise. The kernel changes no registers but the three named; the child starts at the top of
    // its own stack, which is aligned as a call demands, and never comes back from its function.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, {argument}",
            "call {child}",
            "ud2",
            "2:",
            argument = in(reg) argument,
            child = sym child,
            inlateout("rax") result,
            in("rdi") &raw mut request,
            in("rsi") size_of::<libc::clone_args>(),
            out("rcx") _,
            out("r11") _,
        );
        if result < 0 {
            *libc::__errno_location() = -result as c_int;
            return -1;
        }
    }
    result as c_int
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: the pointer is the one `clone` was given, and the other user of the plan is held in the kernel.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    plan.failure = Some(run(plan));
    // SAFETY: ends only this process; nothing of the agent's is torn down.
    unsafe { libc::_exit(127) }
}

/// Becomes the program; returns only if that failed.
fn run(plan: &mut Plan) -> (Stage, c_int) {
    match prepare(plan) {
        Ok(()) => (Stage::Program, execute(plan)),
        Err(failure) => failure,
    }
}

fn prepare(plan: &Plan) -> Result<(), (Stage, c_int)> {
    let at = |stage| move |errno| (stage, errno);
    // SAFETY: these calls take numbers, or pointers to memory prepared before the clone.
    unsafe {
        call(libc::SYS_setsid, [0; 4]).map_err(at(Stage::Session))?;
        for (target, &source) in plan.stdio.iter().enumerate() {
            call(libc::SYS_dup3, [source.into(), target as c_long, 0, 0]).map_err(at(Stage::Stdio))?;
        }
        if plan.terminal {
            call(libc::SYS_ioctl, [0, libc::TIOCSCTTY as c_long, 0, 0]).map_err(at(Stage::Terminal))?;
        }
        // Descriptors of the agent close on exec; an old kernel without this call has nothing more to offer.
        let _ = call(libc::SYS_close_range, [3, c_int::MAX.into(), 0, 0]);
        let _ = call(libc::SYS_umask, [COMMAND_UMASK, 0, 0, 0]);
        if let Some((uid, gid, groups)) = &plan.become_user {
            let (uid, gid) = (c_long::from(*uid), c_long::from(*gid));
            let groups = [groups.len() as c_long, groups.as_ptr() as c_long, 0, 0];
            call(libc::SYS_setgroups, groups).map_err(at(Stage::User))?;
            call(libc::SYS_setresgid, [gid, gid, gid, 0]).map_err(at(Stage::User))?;
            call(libc::SYS_setresuid, [uid, uid, uid, 0]).map_err(at(Stage::User))?;
        }
        let entered = call(libc::SYS_chdir, [plan.workdir as c_long, 0, 0, 0]);
        if let Err(errno) = entered {
            if !plan.workdir_is_default {
                return Err((Stage::Workdir, errno));
            }
            call(libc::SYS_chdir, [c"/".as_ptr() as c_long, 0, 0, 0]).map_err(at(Stage::Workdir))?;
        }
        // Of the dispositions only this one survives an exec. All zeros is the default action in the kernel's own
        // layout, which the wrapper would not take.
        let default_action = [0_u64; 4];
        let action = default_action.as_ptr() as c_long;
        let _ = call(libc::SYS_rt_sigaction, [libc::SIGPIPE.into(), action, 0, 8]);
        let no_signals = 0_u64;
        let mask = (&raw const no_signals) as c_long;
        let _ = call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK.into(), mask, 0, 8]);
    }
    Ok(())
}

/// Tries each candidate as execvp does: what is missing is passed over, what may not be run is remembered.
fn execute(plan: &mut Plan) -> c_int {
    let mut failure = libc::ENOENT;
    for &file in &plan.candidates {
        let envp = plan.envp.as_ptr() as c_long;
        // SAFETY: the file, the arguments and the environment are NUL-terminated strings in null-terminated lists.
        let refusal =
            unsafe { call(libc::SYS_execve, [file as c_long, plan.argv.as_ptr() as c_long, envp, 0]) };
        let errno = match refusal {
            Err(libc::ENOEXEC) => {
                if let Some(script) = plan.shell_argv.get_mut(1) {
                    *script = file;
                }
                let shell = plan.shell_argv.first().map_or(0, |&shell| shell as c_long);
                // SAFETY: as above; the script's name was filled in.
                let refusal =
                    unsafe { call(libc::SYS_execve, [shell, plan.shell_argv.as_ptr() as c_long, envp, 0]) };
                if refusal.is_err() { libc::ENOEXEC } else { 0 }
            }
            Err(errno) => errno,
            Ok(_) => 0,
        };
        match errno {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => failure = errno,
            _ => return errno,
        }
    }
    failure
}

/// A bare system call.
///
/// # Safety
///
/// As the call demands of its arguments.
unsafe fn call(number: c_long, [a, b, c, d]: [c_long; 4]) -> Result<c_long, c_int> {
    // SAFETY: the caller's promise. The error number is this thread's own, which is held in the kernel.
    unsafe {
        match libc::syscall(number, a, b, c, d) {
            -1 => Err(*libc::__errno_location()),
            result => Ok(result),
        }
    }
}
