//! Running a program and its children so that they end together, also if this process is killed.

use std::collections::VecDeque;
use std::io::{PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal};

use super::BuildError;
use crate::lines;
use crate::tools::{Tool, ToolError};

/// A shell script that runs its arguments, and a watcher that kills the process group if standard input is closed before a
/// line was written to it. The watcher is not a child of the program and keeps no pipe open.
const WATCHED: &str = r#"
exec 3<&0 </dev/null
( setsid sh -c 'read -r word <&3 && exit; kill -s KILL -- "-$1"' sh $$ >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
"#;

/// A running program and its children. Dropping it ends them.
struct Group {
    child: Child,
    lifeline: Option<ChildStdin>,
    ended: bool,
}

/// The result of a program.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The last lines it printed.
    pub(super) said: VecDeque<String>,
}

impl Ended {
    pub(super) fn text(&self) -> String {
        self.said.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// A command of `tool` to add arguments to, for [`run`].
pub(super) fn command(tool: &Tool) -> Result<Command, ToolError> {
    let mut command = Tool::find("sh", "dash")?.command();
    command.args(["-c", WATCHED, "sh"]).arg(tool.path());
    Ok(command)
}

/// Runs a command of `tool` and passes every line of its output to `each`. Setting `cancel` cancels it.
pub(super) fn run(
    tool: &Tool,
    command: &mut Command,
    cancel: &AtomicBool,
    each: impl FnMut(&str),
) -> Result<Ended, BuildError> {
    let (mut group, output) = Group::spawn(tool, command)?;
    let said = lines::follow(output, cancel, each).ok_or(BuildError::Cancelled)?;
    let status = group.end().map_err(|source| ToolError::Spawn { tool: tool.name(), source })?;
    Ok(Ended { status, said })
}

impl Group {
    fn spawn(tool: &Tool, command: &mut Command) -> Result<(Self, PipeReader), ToolError> {
        let failed = |source| ToolError::Spawn { tool: tool.name(), source };
        let (output, input) = std::io::pipe().map_err(failed)?;
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(input.try_clone().map_err(failed)?).stderr(input);
        let mut child = command.spawn().map_err(failed)?;
        // The write end of the pipe must be closed when the program ends.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let lifeline = child.stdin.take();
        Ok((Self { child, lifeline, ended: false }, output))
    }

    fn end(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.ended = true;
        if let Some(lifeline) = &mut self.lifeline {
            // The watcher may have ended.
            let _ = lifeline.write_all(b"done\n");
        }
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::Ordering;

    fn shell(script: &str) -> (Tool, Command) {
        let tool = Tool::find("sh", "dash").unwrap();
        let mut command = command(&tool).unwrap();
        command.args(["-c", script]);
        (tool, command)
    }

    fn process(line: &str) -> OwnedFd {
        let pid = Pid::from_raw(line.parse().unwrap()).unwrap();
        pidfd_open(pid, PidfdFlags::empty()).unwrap()
    }

    fn ends(process: &OwnedFd) -> bool {
        let limit = rustix::time::Timespec { tv_sec: 30, tv_nsec: 0 };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)) == Ok(1)
    }

    #[test]
    fn all_lines_arrive_from_both_streams_and_the_last_are_kept() {
        let (tool, mut command) = shell("echo out; echo err >&2; seq 100; exit 3");
        let mut all = Vec::new();
        let ended =
            run(&tool, &mut command, &AtomicBool::new(false), |line| all.push(line.to_owned())).unwrap();
        assert_eq!((ended.status.code(), all.len(), ended.said.len()), (Some(3), 102, lines::KEPT_LINES));
        assert_eq!(&all[..3], ["out", "err", "1"]);
        assert!(ended.text().ends_with("\n100"));
    }

    #[test]
    fn what_is_cancelled_takes_its_children_along() {
        let (tool, mut command) =
            shell("sh -c 'trap \"\" TERM INT; echo $$; while :; do sleep 1; done' & wait");
        let cancel = AtomicBool::new(false);
        let mut child = None;
        let ended = run(&tool, &mut command, &cancel, |line| {
            child = Some(process(line));
            cancel.store(true, Ordering::Relaxed);
        });
        assert!(matches!(ended, Err(BuildError::Cancelled)));
        assert!(ends(&child.unwrap()));
    }

    #[test]
    fn the_group_ends_when_its_lifeline_breaks_as_it_does_when_we_are_killed() {
        let (tool, mut command) = shell("echo $$; while :; do sleep 1; done");
        let (mut group, output) = Group::spawn(&tool, &mut command).unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        let child = process(line.trim());
        group.lifeline = None;
        assert!(ends(&child));
    }
}
