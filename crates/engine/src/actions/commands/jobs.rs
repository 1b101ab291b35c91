//! Commands that are left running.

use agentiso_core::action::{
    Job, JobKill, JobKilled, JobList, JobListed, JobPoll, JobPolled, JobStart, JobStarted, JobStatus,
    JobWrite, JobWritten, WaitFor,
};
use agentiso_core::ports::link::{ErrorKind, JobInfo, JobOutput, JobRead, JobWait, Link, LinkError};
use agentiso_core::{Code, Failure};
use jiff::Timestamp;

use super::exec::{bounded, code_and_signal, shell};
use crate::act::Context;
use crate::command::Shell;
use crate::live_state::locked;
use crate::long_command;
use crate::output::{cut, whole_characters};
use crate::secrets::{without_credentials, without_values};
use crate::views::shown;
use crate::{Access, Perform};

const OUTPUT: u64 = 256 * 1024;
const MOST_OUTPUT: u64 = 1 << 20;
const WAIT: u64 = 30;
const LONGEST_WAIT: u64 = 3600;
const LONGEST: u64 = 30 * 86_400;
/// How much of a command a list shows.
const SHOWN_COMMAND: usize = 200;
const KILL: i32 = 9;

impl Perform for JobStart {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<JobStarted, Failure> {
        let mut command = shell(&self.command, self.workdir.as_deref(), &self.env, self.user.as_deref())?;
        command.stdin = self.stdin;
        if let Some(seconds) = self.timeout_secs {
            command.timeout_ms = Some(bounded("timeout_secs", Some(seconds), 0, 1, LONGEST)? * 1000);
        }
        let launched = context.start_job(&command).await?;
        let shell = launched.shell.unwrap_or(Shell::Sh).path().to_owned();
        Ok(JobStarted { job_id: launched.started, status: JobStatus::Started, shell })
    }

    fn changed(outcome: &JobStarted) -> Option<String> {
        Some(format!("job {}", outcome.job_id))
    }
}

impl Perform for JobPoll {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<JobPolled, Failure> {
        let most = bounded("max_output_bytes", self.max_output_bytes, OUTPUT, 1, MOST_OUTPUT)?;
        let wait_secs = bounded("wait_secs", self.wait_secs, WAIT, 0, LONGEST_WAIT)?;
        let wait = match self.wait {
            None | Some(WaitFor::Nothing) => JobWait::No,
            Some(WaitFor::Output) => JobWait::Output,
            Some(WaitFor::Exit) => JobWait::Exit,
        };
        let guest = context.running_guest().await?;
        let read = JobRead {
            id: self.job_id,
            stdout_from: self.stdout_offset.unwrap_or(0),
            stderr_from: self.stderr_offset.unwrap_or(0),
            max: u32::try_from(most).unwrap_or(u32::MAX),
            wait,
            wait_ms: u32::try_from(wait_secs * 1000).unwrap_or(u32::MAX),
        };
        let output = read_up_to(&guest, read, most).await.map_err(|error| about_job(error, self.job_id))?;
        Ok(polled(&output))
    }
}

/// Reads more than the agent gives at once.
pub(super) async fn read_up_to(guest: &Link, read: JobRead, most: u64) -> Result<JobOutput, LinkError> {
    let mut output = guest.read_job(read).await?;
    loop {
        let next = JobRead {
            stdout_from: output.stdout_from + output.stdout.len() as u64,
            stderr_from: output.stderr_from + output.stderr.len() as u64,
            wait: JobWait::No,
            ..read
        };
        let room = |have: &[u8]| most.saturating_sub(have.len() as u64);
        let missing = |from: u64, end: u64, have: &[u8]| from < end && room(have) > 0;
        if !missing(next.stdout_from, output.info.stdout.end, &output.stdout)
            && !missing(next.stderr_from, output.info.stderr.end, &output.stderr)
        {
            return Ok(output);
        }
        let more = guest.read_job(next).await?;
        if more.stdout.is_empty() && more.stderr.is_empty() {
            return Ok(output);
        }
        let (stdout, stderr) = (room(&output.stdout), room(&output.stderr));
        extend(&mut output.stdout, &more.stdout, stdout);
        extend(&mut output.stderr, &more.stderr, stderr);
        output.info = more.info;
    }
}

fn extend(have: &mut Vec<u8>, more: &[u8], room: u64) {
    let fits = more.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    have.extend_from_slice(&more[..fits]);
}

fn polled(output: &JobOutput) -> JobPolled {
    let (exit_code, timed_out) = ending(&output.info);
    // A character that is not whole yet is shown by the next poll; at the very end nothing follows.
    let whole = |bytes: &[u8], from: u64, end: u64| {
        if !output.info.running && from + bytes.len() as u64 == end {
            bytes.len()
        } else {
            whole_characters(bytes)
        }
    };
    let out = whole(&output.stdout, output.stdout_from, output.info.stdout.end);
    let err = whole(&output.stderr, output.stderr_from, output.info.stderr.end);
    let (next_out, next_err) = (output.stdout_from + out as u64, output.stderr_from + err as u64);
    JobPolled {
        job_id: output.info.id,
        running: output.info.running,
        exit_code,
        timed_out,
        stdout: String::from_utf8_lossy(&output.stdout[..out]).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr[..err]).into_owned(),
        stdout_offset: output.stdout_from,
        stderr_offset: output.stderr_from,
        next_stdout_offset: next_out,
        next_stderr_offset: next_err,
        more: next_out < output.info.stdout.end || next_err < output.info.stderr.end,
    }
}

fn ending(info: &JobInfo) -> (Option<i32>, bool) {
    match &info.exit {
        Some(exit) => (Some(code_and_signal(exit).0), exit.timed_out),
        None => (None, false),
    }
}

impl Perform for JobKill {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<JobKilled, Failure> {
        let signal = self.signal.unwrap_or(KILL);
        if !(1..=64).contains(&signal) {
            return Err(Failure::new(Code::InvalidArgument, format!("signal must be 1 to 64, not {signal}")));
        }
        let guest = context.running_guest().await?;
        let job = |error| about_job(error, self.job_id);
        let read = JobRead { id: self.job_id, max: 0, ..JobRead::default() };
        let was_running = guest.read_job(read).await.map_err(job)?.info.running;
        guest.signal_job(self.job_id, signal).await.map_err(job)?;
        let status = match (was_running, signal) {
            (false, _) => JobStatus::Ended,
            (true, KILL) => JobStatus::Killed,
            (true, _) => JobStatus::Signalled,
        };
        Ok(JobKilled { job_id: self.job_id, signal, status })
    }

    fn changed(outcome: &JobKilled) -> Option<String> {
        Some(format!("job {} {}", outcome.job_id, outcome.status))
    }
}

impl Perform for JobList {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<JobListed, Failure> {
        let jobs = context.running_guest().await?.jobs().await?;
        let live = context.engine.live.of(context.workspace()?.id);
        let env = locked(&live.env);
        Ok(JobListed { jobs: jobs.iter().map(|job| listed(job, &env.secrets())).collect() })
    }
}

fn listed(info: &JobInfo, secrets: &[&str]) -> Job {
    let command = match info.argv.as_slice() {
        [_, flag, command] if flag == b"-c" => {
            long_command::shown(&String::from_utf8_lossy(command)).to_owned()
        }
        words => words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "),
    };
    let nanos = i128::from(info.started_unix_nanos);
    Job {
        job_id: info.id,
        command: cut(&without_credentials(&without_values(&command, secrets.iter().copied())), SHOWN_COMMAND)
            .to_owned(),
        running: info.running,
        exit_code: ending(info).0,
        started_at: Timestamp::from_nanosecond(nanos).map(shown).unwrap_or_default(),
        stdout_bytes: info.stdout.end,
        stderr_bytes: info.stderr.end,
    }
}

impl Perform for JobWrite {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<JobWritten, Failure> {
        let guest = context.running_guest().await?;
        let written = guest.write_job(self.job_id, self.data.as_bytes(), self.close).await;
        written.map_err(|error| about_job(error, self.job_id))?;
        Ok(JobWritten { job_id: self.job_id, written: self.data.len() })
    }
}

pub(super) fn about_job(error: LinkError, id: u32) -> Failure {
    match &error {
        LinkError::Guest(refused) if refused.kind == ErrorKind::NotFound => {
            Failure::new(Code::JobNotFound, format!("there is no job {id}"))
                .with_remedy("exec_list shows all; jobs end with their machine")
        }
        _ => error.into(),
    }
}
