//! The package managers of the host.

use std::process::Stdio;
use std::time::Duration;

use agentiso_core::ports::packages::{MAX_REPORT, PackageSources};
use agentiso_core::{Code, Failure};
use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long the package managers may take together.
const LIMIT: Duration = Duration::from_secs(20);

/// Asks the package managers of the host, as the user the daemon runs as.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostPackages;

#[async_trait]
impl PackageSources for HostPackages {
    async fn report(&self, script: &str) -> Result<String, Failure> {
        let failed = |why: String| {
            Failure::new(Code::ToolFailed, format!("could not ask the package managers of the host: {why}"))
                .with_remedy("name the hosts with allow_domains instead of using the preset")
        };
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let ask = async {
            let mut report = Vec::new();
            stdout.take(MAX_REPORT as u64).read_to_end(&mut report).await?;
            child.wait().await.map(|status| (report, status))
        };
        let asked = tokio::time::timeout(LIMIT, ask);
        let (report, status) = match asked.await {
            Ok(asked) => asked.map_err(|error| failed(error.to_string()))?,
            Err(_) => return Err(failed(format!("they took longer than {} s", LIMIT.as_secs()))),
        };
        if !status.success() {
            return Err(failed(format!("the script ended with {status}")));
        }
        Ok(String::from_utf8_lossy(&report).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_report_is_bounded_and_a_script_that_fails_is_an_error() {
        assert_eq!(
            HostPackages.report("echo apt http://a.example/").await.unwrap(),
            "apt http://a.example/\n"
        );
        let endless = HostPackages.report("yes").await;
        assert!(endless.is_err(), "it was cut off: {endless:?}");
        assert_eq!(HostPackages.report("exit 3").await.unwrap_err().code(), Code::ToolFailed);
    }
}
