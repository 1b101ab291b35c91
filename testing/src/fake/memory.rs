//! The memory of a machine: its processes, jobs and variables, as plain data that can be copied.

use std::collections::BTreeMap;
use std::time::Duration;

use agentiso_core::ports::link::{
    ErrorKind, Exec, Exit, ExitStatus, FileKind, GuestError, JobInfo, JobStream, Usage, User,
};
use rustix::io::Errno;
use tokio::time::Instant;

use super::answers::Answers;
use super::programs::is_known;
use super::script::{Printed, Script};
use super::tree::{Content, Tree, invalid, not_found, shown};

/// Signals that end no process that does nothing about them.
const HARMLESS: [i32; 6] = [0, 17, 18, 19, 23, 28];
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// What a machine has in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub hostname: String,
    pub env: BTreeMap<String, String>,
    processes: BTreeMap<u32, Process>,
    /// The process of each job.
    jobs: BTreeMap<u32, u32>,
    last_pid: u32,
    last_job: u32,
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    argv: Vec<Vec<u8>>,
    script: Script,
    input: Vec<u8>,
    input_is_over: bool,
    /// Bytes of input that it has read.
    pub input_read: u64,
    pub printed: Printed,
    pub exit: Option<Exit>,
    began: Instant,
    deadline: Option<Instant>,
    /// Where the output begins that is kept for readers of a job.
    kept_from: [u64; 2],
    pub job: Option<u32>,
}

impl Memory {
    /// The memory of a machine that has just started.
    pub fn of_host(hostname: &str) -> Self {
        Self { hostname: hostname.to_owned(), ..Self::default() }
    }

    /// Starts a process and runs it until it ends or waits.
    pub fn start(&mut self, exec: &Exec, tree: &mut Tree, answers: &Answers) -> Result<u32, GuestError> {
        let account = account_of(exec.user.as_ref(), tree)?;
        let mut script = script_of(exec, tree)?;
        script.workdir = workdir_of(exec, &account, tree)?;
        self.last_pid += 1;
        let pid = 100 + self.last_pid;
        script.pid = pid;
        script.uid = account.uid;
        script.hostname.clone_from(&self.hostname);
        script.env.insert("HOME".to_owned(), shown(&account.home));
        script.env.extend(self.env.clone());
        script.env.extend(exec.env.iter().map(|(name, value)| (shown(name), shown(value))));
        let began = Instant::now();
        let mut process = Process {
            argv: exec.argv.clone(),
            script,
            input: Vec::new(),
            input_is_over: !exec.stdin,
            input_read: 0,
            printed: Printed::new(),
            exit: None,
            began,
            deadline: exec.timeout_ms.map(|limit| began + Duration::from_millis(limit)),
            kept_from: [0; 2],
            job: None,
        };
        match answers.to(&exec.argv) {
            Some((printed, status)) => {
                process.printed = printed;
                process.exit = Some(exited(status));
            }
            None => process.run(tree),
        }
        self.processes.insert(pid, process);
        Ok(pid)
    }

    /// Makes a process a job, which ends so long after its start.
    pub fn make_job(&mut self, pid: u32, timeout: Option<Duration>, keep_output: bool) -> Option<u32> {
        let process = self.processes.get_mut(&pid)?;
        self.last_job += 1;
        process.job = Some(self.last_job);
        process.deadline = timeout.map(|limit| process.began + limit);
        if !keep_output {
            process.kept_from = [process.length(1), process.length(2)];
        }
        self.jobs.insert(self.last_job, pid);
        Some(self.last_job)
    }

    /// A process, as it is now.
    pub fn process(&mut self, pid: u32) -> Option<&Process> {
        self.end_overdue();
        self.processes.get(&pid)
    }

    /// The process of a job.
    pub fn pid_of_job(&self, job: u32) -> Result<u32, GuestError> {
        self.jobs.get(&job).copied().ok_or_else(|| not_found(format!("there is no job {job}")))
    }

    /// All jobs, in the order of their numbers.
    pub fn job_infos(&mut self) -> Vec<JobInfo> {
        self.end_overdue();
        self.jobs.iter().filter_map(|(id, pid)| Some(self.processes.get(pid)?.info(*id))).collect()
    }

    /// The next moment at which a process runs out of time.
    pub fn next_deadline(&self) -> Option<Instant> {
        let running = self.processes.values().filter(|process| process.exit.is_none());
        running.filter_map(|process| process.deadline).min()
    }

    /// How many processes run.
    pub fn running(&self) -> usize {
        self.processes.values().filter(|process| process.exit.is_none()).count()
    }

    /// Whether a process serves a port.
    pub fn serves(&self, port: u16) -> bool {
        let mut running = self.processes.values().filter(|process| process.exit.is_none());
        running.any(|process| process.script.port() == Some(port))
    }

    /// Gives a process input.
    pub fn feed(&mut self, pid: u32, bytes: &[u8], close: bool, tree: &mut Tree) -> Result<(), InputEnded> {
        self.end_overdue();
        let process = self.processes.get_mut(&pid).ok_or(InputEnded)?;
        if process.exit.is_some() || process.input_is_over {
            return Err(InputEnded);
        }
        process.input.extend_from_slice(bytes);
        process.input_is_over = close;
        process.run(tree);
        Ok(())
    }

    /// Sends a signal to a process; nothing happens to one that has ended.
    pub fn signal(&mut self, pid: u32, signal: i32) {
        if !HARMLESS.contains(&signal) {
            self.end(pid, Exit { status: ExitStatus::Signal(signal), ..exited(0) });
        }
    }

    /// Ends a process because its caller does not want it any more. A job has no caller.
    pub fn cancel_unless_job(&mut self, pid: u32) {
        if self.processes.get(&pid).is_some_and(|process| process.job.is_some()) {
            return;
        }
        self.end(pid, Exit { status: ExitStatus::Signal(9), cancelled: true, ..exited(0) });
    }

    /// Forgets a process that nobody can ask about any more.
    pub fn forget(&mut self, pid: u32) {
        if self.processes.get(&pid).is_some_and(|process| process.job.is_none()) {
            self.processes.remove(&pid);
        }
    }

    /// A copy for another machine or another time: whoever waited for a command is not there, so only jobs continue.
    pub fn copied(&self) -> Self {
        let mut copy = self.clone();
        copy.processes.retain(|_, process| process.job.is_some());
        copy
    }

    fn end(&mut self, pid: u32, exit: Exit) {
        if let Some(process) = self.processes.get_mut(&pid)
            && process.exit.is_none()
        {
            process.exit = Some(exit);
        }
    }

    fn end_overdue(&mut self) {
        let now = Instant::now();
        for process in self.processes.values_mut() {
            if process.exit.is_none() && process.deadline.is_some_and(|deadline| deadline <= now) {
                process.exit = Some(Exit { status: ExitStatus::Signal(9), timed_out: true, ..exited(0) });
            }
        }
    }
}

/// The process takes no more input.
#[derive(Debug)]
pub(super) struct InputEnded;

impl Process {
    fn run(&mut self, tree: &mut Tree) {
        let before = self.input.len() as u64;
        let ended = self.script.run(tree, &mut self.input, self.input_is_over, &mut self.printed);
        self.input_read += before - self.input.len() as u64;
        if let Some(status) = ended {
            self.exit = Some(Exit { status, ..exited(0) });
        }
    }

    /// Bytes it has written to one of its outputs.
    pub fn length(&self, stream: u8) -> u64 {
        self.printed.iter().filter(|(to, _)| *to == stream).map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// What it has written to one of its outputs from a place on, and the place where that begins.
    pub fn output(&self, stream: u8, from: u64, most: usize) -> (u64, Vec<u8>) {
        let all = self.printed.iter().filter(|(to, _)| *to == stream);
        let all: Vec<u8> = all.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        let from = from.max(self.kept_from[usize::from(stream - 1)]).min(all.len() as u64);
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        (from, all[start..].iter().copied().take(most).collect())
    }

    pub fn info(&self, id: u32) -> JobInfo {
        let stream = |stream: u8| JobStream {
            first: self.kept_from[usize::from(stream - 1)],
            end: self.length(stream),
        };
        JobInfo {
            id,
            argv: self.argv.clone(),
            started_unix_nanos: 1,
            running: self.exit.is_none(),
            exit: self.exit,
            stdout: stream(1),
            stderr: stream(2),
            stdin_open: self.exit.is_none() && !self.input_is_over,
        }
    }
}

pub(super) fn exited(code: i32) -> Exit {
    Exit { status: ExitStatus::Code(code), timed_out: false, cancelled: false, usage: Usage::default() }
}

struct Account {
    uid: u32,
    home: Vec<u8>,
}

fn account_of(user: Option<&User>, tree: &Tree) -> Result<Account, GuestError> {
    let passwd = tree.read(b"/etc/passwd").map(|(_, bytes)| shown(bytes)).unwrap_or_default();
    let accounts = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut accounts = accounts.filter(|fields| fields.len() >= 6);
    let found = match user {
        None => accounts.find(|fields| fields[2] == "0"),
        Some(User::Id { uid, .. }) => accounts.find(|fields| fields[2] == uid.to_string()),
        Some(User::Name(name)) => {
            let named = accounts.find(|fields| fields[0] == name);
            Some(named.ok_or_else(|| not_found(format!("there is no user {name} in /etc/passwd")))?)
        }
    };
    let uid = match (&found, user) {
        (Some(fields), _) => fields[2].parse().unwrap_or_default(),
        (None, Some(User::Id { uid, .. })) => *uid,
        (None, _) => 0,
    };
    Ok(Account { uid, home: found.map_or(b"/".to_vec(), |fields| fields[5].as_bytes().to_vec()) })
}

fn workdir_of(exec: &Exec, account: &Account, tree: &Tree) -> Result<Vec<u8>, GuestError> {
    let Some(asked) = &exec.workdir else {
        let has_home = tree.stat(&account.home, true).is_ok();
        return Ok(if has_home { account.home.clone() } else { b"/".to_vec() });
    };
    let errno = match tree.stat(asked, true) {
        Ok(found) if found.kind == FileKind::Directory => return tree.resolve(asked, true),
        Ok(_) => Errno::NOTDIR,
        Err(_) => Errno::NOENT,
    };
    let message = format!("entering the working directory {}: {errno}", shown(asked));
    Err(GuestError { kind: ErrorKind::NotFound, errno: Some(errno.raw_os_error()), message })
}

fn script_of(exec: &Exec, tree: &Tree) -> Result<Script, GuestError> {
    let words: Vec<String> = exec.argv.iter().map(|word| shown(word)).collect();
    let Some(program) = words.first() else { return Err(invalid("the command is empty")) };
    let errno = match tree.stat(program.as_bytes(), true).map(|found| found.mode & 0o111 != 0) {
        Ok(false) => Errno::ACCESS,
        Ok(true) if SHELLS.contains(&program.as_str()) => {
            return Ok(match words.get(1..) {
                Some([flag, line, parameters @ ..]) if flag == "-c" => {
                    Script::of_line(line, parameters.to_vec())
                }
                // A shell without a line reads its input, of which nothing is made.
                _ => Script::of_program(&["cat".to_owned()]),
            });
        }
        Ok(true) => match tree.read(program.as_bytes()) {
            Ok((_, content)) if content.starts_with(b"#!") => {
                let text = shown(content);
                let (_, line) = text.split_once('\n').unwrap_or_default();
                return Ok(Script::of_line(line, words));
            }
            _ => Errno::NOEXEC,
        },
        Err(_) if is_known(program) => return Ok(Script::of_program(&words)),
        Err(_) => Errno::NOENT,
    };
    let kind = if errno == Errno::NOENT { ErrorKind::NotFound } else { ErrorKind::Denied };
    Err(GuestError {
        kind,
        errno: Some(errno.raw_os_error()),
        message: format!("running {program}: {errno}"),
    })
}

/// Notes the name of a machine where its programs look for it.
pub(super) fn set_hostname(tree: &mut Tree, hostname: &str) {
    tree.put(b"/etc/hostname", Content::File(format!("{hostname}\n").into_bytes()), 0o644);
}
