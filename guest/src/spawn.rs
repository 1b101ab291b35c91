//! Starts a process with a minimal clone.
//!
//! The child shares the agent's memory until it calls exec (like vfork, but on its own stack), so it may only make
//! system calls: no allocation, no locks, and no libc wrappers that act on all threads of a process.

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

/// The child's stack between clone and exec. Each worker has one.
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
        // SAFETY: the result is at most 15 bytes below the end of a longer buffer.
        unsafe { end.sub(end as usize % 16).cast() }
    }
}

/// A started command. Only the thread that started it can wait for its process.
#[derive(Debug)]
pub(crate) struct Child {
    /// Also the id of its session and process group.
    pub(crate) pid: Pid,
    /// Readable once the process has exited.
    pub(crate) pidfd: OwnedFd,
}

/// Input of the child, and where it reports failures. Everything is prepared before the clone.
struct Plan {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    /// `/bin/sh FILE ARGUMENTS…`, for a script without an interpreter line.
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

/// Starts a command in a new session, as `user` if one is given, and in a cgroup if one is given.
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
    // SAFETY: null pointers for status and usage are allowed. The child is ours and has exited or is about to.
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
        Stage::User => refused("switching to the command's user", errno),
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

/// Clones a child that shares memory. Returns once it has called exec or exited.
fn clone(
    plan: &mut Plan,
    group: Option<&OwnedFd>,
    stack: &mut ChildStack,
) -> rustix::io::Result<(Pid, OwnedFd)> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let mut pidfd: c_int = -1;
    // SAFETY: all pointers that the child uses are in `plan`, which outlives it, because the kernel suspends this
    // thread until the child has called exec or exited. The child runs on its own stack. All signals are blocked, so no
    // handler runs in it. It only makes system calls.
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
    // SAFETY: the kernel created this descriptor with the child, and nothing else owns it.
    cloned.map(|pid| (pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Like libc's `clone`, but the child starts inside a cgroup. Moving it there afterwards would make the kernel wait for
/// all CPUs, and a hold in that moment would miss it.
///
/// # Safety
///
/// As for `clone`. The stack must not be in use.
unsafe fn clone_into(
    group: &OwnedFd,
    argument: *mut c_void,
    stack: &mut ChildStack,
    flags: c_int,
    pidfd: &mut c_int,
) -> c_int {
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let top = stack.top() as u64;
    // SAFETY: clone_args is valid when zeroed.
    let mut request: libc::clone_args = unsafe { mem::zeroed() };
    request.flags = u64::from(flags.cast_unsigned()) | INTO_CGROUP;
    request.pidfd = ptr::from_mut(pidfd) as u64;
    request.exit_signal = libc::SIGCHLD as u64;
    request.stack = stack.bytes.as_ptr() as u64;
    request.stack_size = top - request.stack;
    request.cgroup = group.as_raw_fd() as u64;
    let mut result = libc::SYS_clone3;
    // SAFETY: the caller guarantees the pointers. The kernel changes only the three named registers. The child starts
    // at the top of its own stack, aligned as for a call, and never returns from its function.
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
    // SAFETY: this is the pointer passed to `clone`, and the other user of the plan is suspended in the kernel.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    plan.failure = Some(run(plan));
    // SAFETY: ends only this process and runs none of the agent's exit handlers.
    unsafe { libc::_exit(127) }
}

/// Sets up the process and executes the program. Returns only on failure.
fn run(plan: &mut Plan) -> (Stage, c_int) {
    match prepare(plan) {
        Ok(()) => (Stage::Program, execute(plan)),
        Err(failure) => failure,
    }
}

fn prepare(plan: &Plan) -> Result<(), (Stage, c_int)> {
    let at = |stage| move |errno| (stage, errno);
    // SAFETY: the arguments are numbers, or pointers to memory prepared before the clone.
    unsafe {
        call(libc::SYS_setsid, [0; 4]).map_err(at(Stage::Session))?;
        for (target, &source) in plan.stdio.iter().enumerate() {
            call(libc::SYS_dup3, [source.into(), target as c_long, 0, 0]).map_err(at(Stage::Stdio))?;
        }
        if plan.terminal {
            call(libc::SYS_ioctl, [0, libc::TIOCSCTTY as c_long, 0, 0]).map_err(at(Stage::Terminal))?;
        }
        // The agent's descriptors are close-on-exec anyway, so a kernel without this call is fine.
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
        // Ignored signals stay ignored after exec, and SIGPIPE is the only one. All zeros is the default action in the
        // kernel's structure; the libc wrapper uses another one.
        let default_action = [0_u64; 4];
        let action = default_action.as_ptr() as c_long;
        let _ = call(libc::SYS_rt_sigaction, [libc::SIGPIPE.into(), action, 0, 8]);
        let no_signals = 0_u64;
        let mask = (&raw const no_signals) as c_long;
        let _ = call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK.into(), mask, 0, 8]);
    }
    Ok(())
}

/// Tries each candidate like execvp: skips missing files and remembers "permission denied".
fn execute(plan: &mut Plan) -> c_int {
    let mut failure = libc::ENOENT;
    for &file in &plan.candidates {
        let envp = plan.envp.as_ptr() as c_long;
        // SAFETY: the file is a NUL-terminated string; arguments and environment are NULL-terminated lists of such
        // strings.
        let refusal =
            unsafe { call(libc::SYS_execve, [file as c_long, plan.argv.as_ptr() as c_long, envp, 0]) };
        let errno = match refusal {
            Err(libc::ENOEXEC) => {
                if let Some(script) = plan.shell_argv.get_mut(1) {
                    *script = file;
                }
                let shell = plan.shell_argv.first().map_or(0, |&shell| shell as c_long);
                // SAFETY: as above, with the script's name filled in.
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

/// Makes a system call.
///
/// # Safety
///
/// The arguments must be valid for this system call.
unsafe fn call(number: c_long, [a, b, c, d]: [c_long; 4]) -> Result<c_long, c_int> {
    // SAFETY: the caller guarantees the arguments. `errno` belongs to this thread, which is suspended in the kernel.
    unsafe {
        match libc::syscall(number, a, b, c, d) {
            -1 => Err(*libc::__errno_location()),
            result => Ok(result),
        }
    }
}
