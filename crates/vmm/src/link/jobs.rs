//! Jobs: commands that outlive the session and whose output the agent keeps.

use agentiso_proto::{
    Channel, Exec, JOB_INPUT, JOB_OUTPUT, JobInfo, JobRead, MAX_PAYLOAD, Request, Response,
};

use super::calls::LISTING;
use super::stream::{Event, Shape};
use super::{Guest, JobOutput, LinkError};

/// What the guest may send: output on two channels, and one response.
const OUTPUT: Shape = Shape { receives: &[Channel::Stdout, Channel::Stderr], budget: 2 * MAX_PAYLOAD };

impl Guest {
    /// Starts a command as a job and returns its number. The job is independent of this session and part of every copy of
    /// the machine's memory. The agent keeps its latest output. A job has no terminal.
    pub async fn start_job(&self, exec: Exec) -> Result<u32, LinkError> {
        self.needs_version(2).await?;
        match self.call(Request::StartJob(exec)).await? {
            (Response::JobStarted { id }, _) => Ok(id),
            (other, guest) => Err(guest.mismatch(&other)),
        }
    }

    /// All jobs, in the order in which they were started.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, LinkError> {
        self.needs_version(2).await?;
        let mut exchange = self.start(&Request::ListJobs, LISTING).await?;
        let mut found = Vec::new();
        loop {
            match exchange.next().await? {
                Event::Response(Response::Jobs(jobs)) => found.extend(jobs),
                Event::Last(Response::Done) => return Ok(found),
                other => return Err(exchange.unexpected(&other)),
            }
        }
    }

    /// Reads a job's output once the condition of the request holds. Dropping the future ends the wait.
    pub async fn read_job(&self, read: JobRead) -> Result<JobOutput, LinkError> {
        self.needs_version(2).await?;
        let limit = (read.max as usize).min(JOB_OUTPUT);
        let mut exchange = self.start(&Request::ReadJob(read), OUTPUT).await?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match exchange.next().await? {
                Event::Data(channel, bytes) => {
                    let output = if channel == Channel::Stderr { &mut stderr } else { &mut stdout };
                    output.extend_from_slice(&bytes);
                    if output.len() > limit {
                        return Err(self.violation("more of a job's output than asked for"));
                    }
                }
                Event::Last(Response::JobOutput { info, stdout_from, stderr_from }) => {
                    return Ok(JobOutput { info, stdout_from, stdout, stderr_from, stderr });
                }
                other => return Err(exchange.unexpected(&other)),
            }
        }
    }

    /// Writes to a job's standard input, as fast as the job reads, and closes it with `close`. If the future is dropped,
    /// some of the bytes may have been written.
    pub async fn write_job(&self, id: u32, bytes: &[u8], close: bool) -> Result<(), LinkError> {
        self.needs_version(2).await?;
        let mut left = bytes;
        loop {
            let (now, later) = left.split_at(left.len().min(JOB_INPUT));
            let request = Request::WriteJob { id, bytes: now.to_vec(), close: close && later.is_empty() };
            match self.call(request).await? {
                (Response::Written { bytes }, _) if bytes == now.len() as u64 => {}
                (other, guest) => return Err(guest.mismatch(&other)),
            }
            if later.is_empty() {
                return Ok(());
            }
            left = later;
        }
    }

    /// Sends a signal to a job's process group; SIGKILL ends all descendants of the job. Does nothing if the job has
    /// ended.
    pub async fn signal_job(&self, id: u32, signal: i32) -> Result<(), LinkError> {
        self.needs_version(2).await?;
        self.done(Request::SignalJob { id, signal }).await
    }

    /// Removes a job that has ended, and its output.
    pub async fn forget_job(&self, id: u32) -> Result<(), LinkError> {
        self.needs_version(2).await?;
        self.done(Request::ForgetJob { id }).await
    }
}
