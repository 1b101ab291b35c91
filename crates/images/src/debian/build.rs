//! Running mmdebstrap.
//!
//! ```text
//! spawn (own process group) ──> lines become steps ──> success ──> rename ──> done
//!                                    │ cancelled, failed, dropped
//!                                    └──> group ended; its directory and the partial tar removed
//! ```
//!
//! As root, the builder gets SIGTERM, because only it can undo its mounts; it reacts only to signals of its children, so
//! the whole process group gets it. As another user it is killed: its mounts and processes end with its namespaces, and
//! its files, whose owners exist only there, are removed from within a namespace with the same mapping.
//!
//! If this process is killed, a watcher notices that a pipe was closed and does the same.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use agentiso_core::progress::Progress;
use rustix::process::{Pid, Signal};

use super::{DebianError, Recipe, Sources, mode};
use crate::lines;
use crate::partial::{self, PartialFile};
use crate::tools::{Tool, ToolError};

/// How long the builder may take to undo its mounts and remove its directory.
const GRACE: Duration = Duration::from_secs(20);

/// Builds a recipe into a tarball. On failure there is no file at `out`.
///
/// Setting `cancel` cancels it. It also ends if this process does.
pub fn build(
    recipe: Recipe,
    out: &Path,
    cancel: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), DebianError> {
    let tool = Tool::find("mmdebstrap", "mmdebstrap")?;
    let sources = Sources::of_host(Path::new("/"));
    let failed = |source| DebianError::Io { path: out.to_owned(), source };
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    partial::sweep(directory).map_err(failed)?;
    let partial = PartialFile::create(directory, recipe.name()).map_err(failed)?;
    let list = tempfile::Builder::new().suffix(".list").tempfile().map_err(failed)?;
    fs::write(list.path(), sources.lines.join("\n") + "\n").map_err(failed)?;
    let mode = mode()?;
    let arguments = arguments(recipe, &sources, mode, partial.path(), list.path());
    progress.step(&format!("building {recipe} from {}", sources.suite), None);
    // A cancelled builder leaves some files behind. The users it runs as must be able to enter the directory.
    let scratch = tempfile::Builder::new()
        .prefix("agentiso-build.")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .map_err(failed)?;
    let in_namespace = (mode != "root").then(|| tool.clone());
    let _foreign_files = in_namespace.clone().map(|tool| ForeignFiles { tool, scratch: scratch.path() });
    let running = Running::spawn(&tool, &arguments, scratch.path(), in_namespace)?;
    let (status, said) = running.follow(cancel, progress)?;
    if !status.success() {
        return Err(failure(&tool, status, &said));
    }
    partial.finish(out).map_err(failed)?;
    progress.done("");
    Ok(())
}

fn arguments(recipe: Recipe, sources: &Sources, mode: &str, out: &Path, list: &Path) -> Vec<OsString> {
    let packages: Vec<&str> = recipe.packages().collect();
    let mut arguments: Vec<OsString> = vec![
        format!("--mode={mode}").into(),
        "--variant=minbase".into(),
        "--format=tar".into(),
        format!("--include={}", packages.join(",")).into(),
        "--aptopt=Acquire::Languages \"none\"".into(),
        "--aptopt=APT::Install-Recommends \"false\"".into(),
    ];
    // Leave out manuals and documentation, except licences.
    for option in [
        "path-exclude=/usr/share/man/*",
        "path-exclude=/usr/share/info/*",
        "path-exclude=/usr/share/doc/*",
        "path-include=/usr/share/doc/*/copyright",
        "path-exclude=/usr/share/locale/*",
        "path-include=/usr/share/locale/locale.alias",
    ] {
        arguments.push(format!("--dpkgopt={option}").into());
    }
    // The builder copies these files from the host, but an image must not contain the host's settings.
    arguments
        .push("--customize-hook=rm -f \"$1/etc/resolv.conf\" && echo agentiso > \"$1/etc/hostname\"".into());
    arguments.push(sources.suite.clone().into());
    arguments.push(out.into());
    if !sources.lines.is_empty() {
        arguments.push(list.into());
    }
    arguments
}

/// Output of the builder that starts a long step, and the name of the step.
const STEPS: [(&str, &str); 6] = [
    ("running apt-get update", "fetching package lists"),
    ("downloading packages", "downloading packages"),
    ("extracting archives", "unpacking packages"),
    ("installing essential packages", "installing the essential packages"),
    ("installing remaining packages", "installing the other packages"),
    ("creating tarball", "packing"),
];

fn step_of(line: &str) -> Option<&'static str> {
    let said = line.strip_prefix("I: ")?;
    STEPS.iter().find(|(sign, _)| said.starts_with(sign)).map(|(_, step)| *step)
}

fn failure(tool: &Tool, status: ExitStatus, said: &VecDeque<String>) -> DebianError {
    let lines: Vec<&str> = said.iter().map(String::as_str).collect();
    let text = lines.join("\n");
    let is_network =
        ["Failed to fetch", "Could not resolve", "Could not connect", "Temporary failure resolving"]
            .iter()
            .any(|sign| text.contains(sign));
    let error = tool.failure(status.to_string(), &text);
    match error {
        ToolError::Failed { said, .. } if is_network => DebianError::Fetch { said },
        other => other.into(),
    }
}

/// Files of a builder whose owners exist only in its namespace. Dropping it removes them.
struct ForeignFiles<'a> {
    tool: Tool,
    scratch: &'a Path,
}

impl Drop for ForeignFiles<'_> {
    fn drop(&mut self) {
        if fs::read_dir(self.scratch).is_ok_and(|mut entries| entries.next().is_none()) {
            return;
        }
        let mut command = self.tool.command();
        command.args(["--unshare-helper", "find"]).arg(self.scratch).args([
            "-xdev",
            "-mindepth",
            "2",
            "-delete",
        ]);
        // On failure the files stay in the directory for temporary files.
        let _ = self.tool.run(&mut command, |code| code == 0);
    }
}

/// A shell script that runs its arguments from the third on, and a watcher. If standard input is closed before a line was
/// written to it, the watcher sends the signal in the first argument to the process group and removes the builder's files,
/// with the program in the second argument if it is not empty.
///
/// The watcher is not a child of the builder, which would wait for it, and keeps no pipe open. If permitted, everything
/// runs in a private mount namespace, so that no mount is left after a kill.
const WATCHED: &str = r#"
signal=$1 helper=$2
shift 2
exec 3<&0 </dev/null
( setsid sh -c '
    read -r word <&3 && exit
    kill -s "$1" -- "-$3"
    tries=0
    while kill -s 0 -- "-$3" && [ $tries -lt 200 ]; do sleep 0.1; tries=$((tries + 1)); done
    [ -z "$2" ] || "$2" --unshare-helper find "$TMPDIR" -xdev -mindepth 2 -delete
    rm -rf --one-file-system "$TMPDIR"
' sh "$signal" "$helper" $$ >/dev/null 2>&1 & )
exec 3<&-
unshare --mount true 2>/dev/null && exec unshare --mount -- "$@"
exec "$@"
"#;

/// The running builder and its children. Dropping it ends them.
struct Running {
    child: Child,
    stderr: Option<ChildStderr>,
    lifeline: Option<ChildStdin>,
    /// Whether its mounts end with it.
    in_namespace: bool,
    ended: bool,
}

impl Running {
    /// Starts a builder. For one in a user namespace, `inside` is the program that enters a namespace with the same mapping.
    fn spawn(
        tool: &Tool,
        arguments: &[OsString],
        scratch: &Path,
        in_namespace: Option<Tool>,
    ) -> Result<Self, ToolError> {
        let shell = Tool::find("sh", "dash")?;
        let mut command = shell.command();
        let signal = if in_namespace.is_some() { "KILL" } else { "TERM" };
        let helper = in_namespace.as_ref().map_or(Path::new(""), Tool::path);
        command
            .args(["-c", WATCHED, "sh", signal])
            .arg(helper)
            .arg(tool.path())
            .args(arguments)
            .process_group(0);
        command.env("TMPDIR", scratch);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| ToolError::Spawn { tool: tool.name(), source })?;
        let (stderr, lifeline) = (child.stderr.take(), child.stdin.take());
        Ok(Self { child, stderr, lifeline, in_namespace: in_namespace.is_some(), ended: false })
    }

    /// Turns lines into steps until it ends.
    fn follow(
        mut self,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<(ExitStatus, VecDeque<String>), DebianError> {
        let step = |line: &str| {
            if let Some(step) = step_of(line.trim_start()) {
                progress.step(step, None);
            }
        };
        let said = match self.stderr.take() {
            Some(stderr) => lines::follow(stderr, cancel, step).ok_or(DebianError::Cancelled)?,
            None => VecDeque::new(),
        };
        let status = self.child.wait().map_err(|source| ToolError::Spawn { tool: "mmdebstrap", source })?;
        self.ended = true;
        if let Some(lifeline) = &mut self.lifeline {
            // The watcher may have ended.
            let _ = lifeline.write_all(b"done\n");
        }
        Ok((status, said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let group = Pid::from_child(&self.child);
        let deadline = Instant::now() + GRACE;
        if !self.in_namespace {
            let _ = rustix::process::kill_process_group(group, Signal::TERM);
        }
        while !self.in_namespace && Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.lifeline = None;
        // The group leader may have ended before its children.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::progress::Silent;
    use agentiso_core::{Code, Explain};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::os::fd::OwnedFd;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    #[derive(Default)]
    struct Steps(Mutex<Vec<String>>);

    impl Progress for Steps {
        fn step(&self, what: &str, _total: Option<u64>) {
            self.0.lock().unwrap().push(what.to_owned());
        }
        fn advance(&self, _amount: u64) {}
        fn done(&self, _remark: &str) {}
    }

    fn start(script: &str) -> Running {
        let tool = Tool::find("sh", "dash").unwrap();
        Running::spawn(&tool, &["-c".into(), script.into()], Path::new("/nonexistent"), None).unwrap()
    }

    fn run(
        script: &str,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<(ExitStatus, VecDeque<String>), DebianError> {
        start(script).follow(cancel, progress)
    }

    #[test]
    fn informative_lines_become_steps() {
        let steps = Steps::default();
        let script = "printf 'I: extracting archives...\\n 10%%\\r 20%%\\r\\nW: odd\\nI: using /tmp/x\\nI: creating tarball...' >&2";
        let (status, said) = run(script, &AtomicBool::new(false), &steps).unwrap();
        assert!(status.success());
        assert_eq!(*steps.0.lock().unwrap(), ["unpacking packages", "packing"]);
        assert_eq!(
            said,
            [
                "I: extracting archives...",
                "10%",
                "20%",
                "W: odd",
                "I: using /tmp/x",
                "I: creating tarball..."
            ]
        );
    }

    #[test]
    fn a_cancelled_build_takes_its_children_along() {
        let place = tempfile::tempdir().unwrap();
        let pid_file = place.path().join("pid");
        // The child ignores the polite request, so only the end of the group ends it.
        let script = format!(
            "sh -c 'trap \"\" TERM; echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 1; done' & echo 'I: creating tarball' >&2; wait",
            pid_file.display()
        );
        struct CancelOnStep<'a> {
            cancel: &'a AtomicBool,
            pid_file: &'a Path,
            child: Mutex<Option<OwnedFd>>,
        }
        impl Progress for CancelOnStep<'_> {
            fn step(&self, _what: &str, _total: Option<u64>) {
                while !self.pid_file.exists() {
                    std::thread::yield_now();
                }
                let pid = std::fs::read_to_string(self.pid_file).unwrap().trim().parse().unwrap();
                let pid = Pid::from_raw(pid).unwrap();
                *self.child.lock().unwrap() = Some(pidfd_open(pid, PidfdFlags::empty()).unwrap());
                self.cancel.store(true, Ordering::Relaxed);
            }
            fn advance(&self, _amount: u64) {}
            fn done(&self, _remark: &str) {}
        }
        let cancel = AtomicBool::new(false);
        let steps = CancelOnStep { cancel: &cancel, pid_file: &pid_file, child: Mutex::new(None) };
        let error = run(&script, &cancel, &steps).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled);
        // Readable once the process has ended.
        let child = steps.child.lock().unwrap().take().unwrap();
        let limit = rustix::time::Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&limit)), Ok(1));
    }

    #[test]
    fn a_build_ends_when_its_lifeline_breaks_as_it_does_when_we_are_killed() {
        use std::os::unix::process::ExitStatusExt;
        let mut running = start("echo 'I: up' >&2; while :; do sleep 1; done");
        running.lifeline = None;
        let (status, _) = running.follow(&AtomicBool::new(false), &Silent).unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn failures_say_what_the_builder_said_last() {
        let tool = Tool::find("sh", "dash").unwrap();
        let fail = |script: &str| {
            let (status, said) = run(script, &AtomicBool::new(false), &Silent).unwrap();
            failure(&tool, status, &said)
        };
        let network = fail("echo 'E: Failed to fetch x  Could not resolve y' >&2; exit 1");
        assert_eq!(network.code(), Code::FetchFailed);
        let other = fail("echo 'E: broken packages' >&2; exit 1");
        assert_eq!(other.code(), Code::ToolFailed);
        assert!(other.to_string().contains("broken packages"), "{other}");
        assert_eq!(fail("echo 'tar: No space left on device' >&2; exit 1").code(), Code::DiskFull);
    }
}
