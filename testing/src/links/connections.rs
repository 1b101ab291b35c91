//! Connections to servers in the workspace.

use agentiso_core::ports::link::{ErrorKind, JobRead, JobWait, WorkspaceLink};

use super::words::{line, refused, until_idle};

const PORT: u16 = 7007;

pub(super) async fn all(link: &dyn WorkspaceLink, echo_server: fn(u16) -> String) {
    refused(link.connect(PORT).await.map(drop), ErrorKind::NotFound);
    let job = link.start_job(line(&echo_server(PORT))).await.expect("a server");
    let ready = JobRead { id: job, max: 100, wait: JobWait::Output, wait_ms: 60_000, ..JobRead::default() };
    assert!(link.read_job(ready).await.expect("output").info.running, "the server ended");

    let (mut reader, mut writer) = link.connect(PORT).await.expect("a connection");
    writer.write(b"hello ").await.expect("sent");
    writer.write(b"there").await.expect("sent");
    // Ends this direction; what was said comes back nevertheless.
    drop(writer);
    let mut heard = Vec::new();
    while let Some(piece) = reader.next().await.expect("an echo") {
        heard.extend_from_slice(&piece);
    }
    assert_eq!(heard, b"hello there");
    drop(reader);

    link.signal_job(job, 9).await.expect("a signal");
    until_idle(link).await;
    refused(link.connect(PORT).await.map(drop), ErrorKind::NotFound);
}
