//! Wake-up hooks: programs of the user that run after a fork or restore and renew what the host cannot, for example the
//! random state of a process.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use agentiso_proto::{Exec, HookOutcome, HookReport, Wake, WakeEvent};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::{
    agent::{Agent, Machine},
    command,
    environment::Variables,
    error::{Outcome, refused},
    groups::Group,
    identity,
    kill::kill_tree,
    paths::file_type,
    spawn::{self, Child, ChildStack},
    stdio::{self, Ours},
    supervise,
};

const DIRECTORY: &str = "/etc/agentiso/hooks.d";
/// Further hooks are skipped.
const MAX_HOOKS: usize = 64;
/// Bytes of a hook's output that are reported.
const TAIL: usize = 1024;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const EXECUTABLE: u32 = 0o111;

/// Runs the hooks in the order of their names. A failing hook does not prevent the others.
pub(crate) fn run(agent: &Agent, machine: &Machine, wake: &Wake) -> Vec<HookReport> {
    let Some(limit) = wake.hooks_ms else { return Vec::new() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(DIRECTORY, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Vec::new(),
        Err(errno) => return vec![skipped("hooks.d", format!("{DIRECTORY} cannot be opened: {errno}"))],
    };
    let names = match trusted(rustix::fs::fstat(&directory)).and_then(|_| names(&directory)) {
        Ok(names) => names,
        Err(reason) => return vec![skipped("hooks.d", format!("{DIRECTORY} {reason}"))],
    };
    let deadline = Instant::now() + Duration::from_millis(limit.into());
    let mut runner = Runner { agent, machine, wake, deadline, group: None, stack: ChildStack::default() };
    let mut reports = Vec::new();
    for name in names {
        if reports.len() == MAX_HOOKS {
            reports.push(skipped(&name, format!("only {MAX_HOOKS} hooks are run")));
            break;
        }
        reports.push(runner.report(&directory, name));
    }
    reports
}

struct Runner<'a> {
    agent: &'a Agent,
    machine: &'a Machine,
    wake: &'a Wake,
    deadline: Instant,
    /// Created when the first hook runs.
    group: Option<Group>,
    stack: ChildStack,
}

impl Runner<'_> {
    fn report(&mut self, directory: &OwnedFd, name: String) -> HookReport {
        let stat = rustix::fs::statat(directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        if let Err(reason) = trusted(stat).and_then(runnable) {
            return skipped(&name, reason);
        }
        if Instant::now() >= self.deadline {
            return HookReport { name, outcome: HookOutcome::TimedOut, output: Vec::new() };
        }
        let mut output = Vec::new();
        let outcome = match self.execute(&name, &mut output) {
            Ok(outcome) => outcome,
            Err(error) => HookOutcome::Skipped(error.message),
        };
        HookReport { name, outcome, output }
    }

    fn execute(&mut self, name: &str, output: &mut Vec<u8>) -> Outcome<HookOutcome> {
        if let (None, Some(groups)) = (&self.group, &self.machine.groups) {
            self.group = Some(groups.for_hooks()?);
        }
        let variable = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
        let exec = Exec {
            argv: vec![format!("{DIRECTORY}/{name}").into_bytes()],
            env: vec![
                variable("AGENTISO_EVENT", event(self.wake.event).as_bytes()),
                variable("AGENTISO_WORKSPACE", rustix::system::uname().nodename().to_bytes()),
            ],
            workdir: Some(b"/".to_vec()),
            ..Exec::default()
        };
        let marker = self.agent.running.marker();
        let command = command::prepare(&exec, &Variables::new(), &identity::find(None)?, &marker)?;
        let (ours, theirs) = stdio::pipes(false, None)?;
        let group = self.group.as_ref().map(Group::open).transpose()?;
        let child = spawn::spawn(&command, None, &theirs, false, group.as_ref(), &mut self.stack)?;
        drop(theirs);
        let in_time = attend(&child, &ours, self.deadline, output);
        if in_time != Ok(true) {
            kill_tree(child.pid, &marker, self.group.take().as_ref());
        }
        let (status, _) = supervise::wait(child.pid)?;
        let in_time = in_time.map_err(|errno| refused("waiting for the hook", errno))?;
        for pipe in [Some(&ours.stdout), ours.stderr.as_ref()].into_iter().flatten() {
            take_output(pipe, output);
        }
        Ok(if in_time { HookOutcome::Exited(status) } else { HookOutcome::TimedOut })
    }
}

/// Reads a hook's output until it exits. Returns whether it exited in time.
fn attend(child: &Child, ours: &Ours, deadline: Instant, output: &mut Vec<u8>) -> rustix::io::Result<bool> {
    let mut open: Vec<&OwnedFd> = [Some(&ours.stdout), ours.stderr.as_ref()].into_iter().flatten().collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let mut fds = vec![PollFd::new(&child.pidfd, PollFlags::IN)];
        fds.extend(open.iter().map(|pipe| PollFd::new(*pipe, PollFlags::IN)));
        // One extra millisecond, so that rounding does not turn the last wait into a busy loop.
        let timeout = Timespec::try_from(left + Duration::from_millis(1)).map_err(|_| Errno::INVAL)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return Ok(true);
        }
        let mut ready = ready[1..].iter();
        open.retain(|pipe| !ready.next().is_some_and(|&ready| ready) || take_output(pipe, output));
    }
}

/// Reads what a pipe contains now, at most one pipe capacity. Returns whether more may follow.
fn take_output(pipe: &OwnedFd, output: &mut Vec<u8>) -> bool {
    const PIPE: usize = 64 * 1024;
    let mut buffer = [0; 4096];
    for _ in 0..PIPE / buffer.len() {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                output.extend_from_slice(&buffer[..count]);
                output.drain(..output.len().saturating_sub(TAIL));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}

/// The names of possible hooks, sorted. Skips backup copies and the like.
fn names(directory: &OwnedFd) -> Result<Vec<String>, String> {
    let unreadable = |errno: Errno| format!("cannot be read: {errno}");
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if let Ok(name) = entry.file_name().to_str()
            && is_hook_name(name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn is_hook_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.bytes().all(allowed)
}

/// Rejects files that a user other than root could have written: hooks run as root.
fn trusted(stat: rustix::io::Result<Stat>) -> Result<Stat, String> {
    let stat = stat.map_err(|errno| format!("cannot be examined: {errno}"))?;
    if stat.st_uid != 0 {
        return Err("is not owned by root".to_owned());
    }
    // The mode of a symbolic link has no meaning.
    if file_type(&stat) != FileType::Symlink && stat.st_mode & WRITABLE_BY_OTHERS != 0 {
        return Err("is writable by users other than root".to_owned());
    }
    Ok(stat)
}

fn runnable(stat: Stat) -> Result<(), String> {
    if file_type(&stat) != FileType::RegularFile {
        return Err("is not a regular file".to_owned());
    }
    if stat.st_mode & EXECUTABLE == 0 {
        return Err("is not executable".to_owned());
    }
    Ok(())
}

fn skipped(name: &str, reason: impl Into<String>) -> HookReport {
    HookReport { name: name.to_owned(), outcome: HookOutcome::Skipped(reason.into()), output: Vec::new() }
}

fn event(event: WakeEvent) -> &'static str {
    match event {
        WakeEvent::Start => "start",
        WakeEvent::Fork => "fork",
        WakeEvent::Restore => "restore",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_hooks() {
        assert!(is_hook_name("10-reseed.sh") && is_hook_name("A_b") && is_hook_name(".x"));
        for bad in ["", ".", "..", "a b", "a~", "#a#", "a/b", "ä", "a\n"] {
            assert!(!is_hook_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut output = b"before".to_vec();
        for piece in [&[b'a'; 3000][..], b"end"] {
            rustix::io::write(&write, piece).unwrap();
            assert!(take_output(&read, &mut output));
        }
        assert_eq!((output.len(), &output[TAIL - 4..]), (TAIL, &b"aend"[..]));
        drop(write);
        assert!(!take_output(&read, &mut output));
    }
}
