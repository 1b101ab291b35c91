//! Starting a daemon that outlives the process that starts it.
#![expect(clippy::disallowed_methods, reason = "in the command that starts the daemon")]

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use agentiso_config::paths::Paths;
use agentiso_core::wire::ErrorBody;
use agentiso_core::{Code, Failure};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::log;

/// What a daemon prints when it accepts connections.
pub(super) const READY: &str = "ready";

/// Starts a daemon and waits until it accepts connections, or says why it could not start.
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
        Ok(Some(line)) => Err(not_started(&line, &paths.home)),
        _ => Err(Failure::new(Code::DaemonUnavailable, "the daemon exited before it could be reached")
            .with_remedy(format!("its log is {}", log::log_file(&paths.home).display()))),
    }
}

/// Why the daemon did not start: the failure that it reported.
fn not_started(line: &str, home: &Path) -> Failure {
    let log = format!("its log is {}", log::log_file(home).display());
    let failure = match serde_json::from_str::<ErrorBody>(line) {
        Ok(reported) => Failure::from(reported),
        Err(_) => Failure::new(Code::DaemonUnavailable, format!("the daemon could not start: {line}")),
    };
    if failure.remedy().is_some() { failure } else { failure.with_remedy(log) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_cannot_start_says_why() {
        let failure = Failure::new(Code::DiskFull, "the disk is full").with_remedy("free some space");
        let line = serde_json::to_string(&ErrorBody::from(&failure)).unwrap();
        let told = not_started(&line, Path::new("/home"));
        assert_eq!((told.code(), told.remedy()), (Code::DiskFull, Some("free some space")));
        assert_eq!(told.message(), "the disk is full");
        let told = not_started("nonsense", Path::new("/home"));
        assert_eq!(told.code(), Code::DaemonUnavailable);
        assert!(told.remedy().unwrap().contains("/home"), "{told:?}");
    }
}
