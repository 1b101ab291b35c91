//! Starting a daemon that outlives whoever starts it.
#![expect(clippy::disallowed_methods, reason = "in the command that starts the daemon")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::log;

/// What a daemon prints when it can be reached.
pub(super) const READY: &str = "ready";

/// Starts a daemon and waits until it can be reached, or has said why not.
pub(super) async fn spawn(paths: &Paths, metrics_port: Option<u16>) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::DaemonUnavailable, format!("the daemon could not be started: {error}"))
    };
    std::fs::create_dir_all(&paths.home).map_err(failed)?;
    let log = log::open(&paths.home).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    if paths.config_named {
        command.arg("--config").arg(&paths.config_file);
    }
    command.args(["daemon", "run", "--detached"]);
    if let Some(port) = metrics_port {
        command.arg("--metrics-port").arg(port.to_string());
    }
    // It may be relative to the directory that is left here.
    if std::env::var_os("AGENTISO_HOME").is_some_and(|home| !home.is_empty()) {
        command.env("AGENTISO_HOME", &paths.home);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let umask = rustix::fs::Mode::from_raw_mode(agentiso_config::modes::inherited_umask());
    let detach = move || {
        // Ours is narrower than the user's, which the daemon has to know.
        rustix::process::umask(umask);
        Ok(rustix::process::setsid().map(drop)?)
    };
    // SAFETY: umask and setsid are safe between fork and exec, and touch nothing of ours.
    unsafe { command.pre_exec(detach) };
    let mut child = command.spawn().map_err(failed)?;
    let Some(stdout) = child.stdout.take() else { return Ok(()) };
    let stdout = tokio::process::ChildStdout::from_std(stdout).map_err(failed)?;
    let mut lines = BufReader::new(stdout).lines();
    match lines.next_line().await {
        Ok(Some(line)) if line == READY => {
            // It is on its own from here on; when it ends before us, nothing of it stays.
            std::thread::spawn(move || child.wait());
            Ok(())
        }
        // Another one was faster.
        Ok(Some(line)) if line == super::run::TAKEN => Ok(()),
        Ok(Some(line)) => {
            Err(Failure::new(Code::DaemonUnavailable, format!("the daemon could not start: {line}"))
                .with_remedy(format!("its log is {}", log::log_file(&paths.home).display())))
        }
        _ => Err(Failure::new(Code::DaemonUnavailable, "the daemon ended before it could be reached")
            .with_remedy(format!("its log is {}", log::log_file(&paths.home).display()))),
    }
}
