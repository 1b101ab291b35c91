//! Progress notifications for clients that ask for them: at most ten per second and at least one every ten seconds, so
//! that the client knows that the call is alive.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agentiso_core::progress::Progress;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::task_manager::TaskContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Minimum interval between notifications.
const PACE: Duration = Duration::from_millis(100);

/// Maximum interval between notifications. A client that receives nothing for a minute may time out.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Increase of the progress per heartbeat: progress must increase with every notification.
const BEAT: f64 = 1.0 / 1024.0;

/// The progress of a call.
#[derive(Clone, Debug, Default)]
struct Report {
    /// Never decreases, as the protocol requires: the work of all steps, plus one for the beginning and end of each.
    done: u64,
    /// The value of `done` at the end of this step.
    total: Option<u64>,
    step: String,
    message: String,
}

/// Receives progress reports from the action.
struct Reporter(watch::Sender<Report>);

impl Progress for Reporter {
    fn step(&self, what: &str, total: Option<u64>) {
        self.0.send_modify(|report| {
            report.done = report.done.saturating_add(1);
            report.total = total.map(|total| report.done.saturating_add(total).saturating_add(1));
            report.step = what.to_owned();
            report.message = what.to_owned();
        });
    }

    fn advance(&self, amount: u64) {
        if amount > 0 {
            self.0.send_modify(|report| report.done = report.done.saturating_add(amount));
        }
    }

    fn done(&self, remark: &str) {
        self.0.send_modify(|report| {
            report.done = report.done.saturating_add(1);
            report.message =
                if remark.is_empty() { report.step.clone() } else { format!("{}: {remark}", report.step) };
        });
    }
}

/// Forwards reports to the client.
pub(super) struct Reports {
    reports: watch::Receiver<Report>,
    /// The progress that was sent last.
    told: f64,
    began: Instant,
    /// Kept so that the last report can be sent after the action, with its reporter, has ended.
    _reporter: Arc<Reporter>,
}

/// Creates a reporter and the receiver that forwards its reports.
pub(super) fn channel() -> (Arc<dyn Progress>, Reports) {
    let (sender, reports) = watch::channel(Report::default());
    let reporter = Arc::new(Reporter(sender));
    (reporter.clone(), Reports { reports, told: -1.0, began: Instant::now(), _reporter: reporter })
}

impl Reports {
    /// Sends notifications to a client that gave a token, until dropped.
    pub(super) async fn tell(
        &mut self,
        peer: &Peer<RoleServer>,
        token: Option<&ProgressToken>,
    ) -> Infallible {
        let Some(token) = token else { return pending().await };
        loop {
            // On timeout, repeat the last report as a heartbeat.
            let _ = timeout(HEARTBEAT, self.next()).await;
            self.notify(peer, token).await;
            sleep(PACE).await;
        }
    }

    /// Sends the last report if it has not been sent yet.
    pub(super) async fn tell_the_last(&mut self, peer: &Peer<RoleServer>, token: Option<&ProgressToken>) {
        if let Some(token) = token
            && self.reports.has_changed().unwrap_or(false)
        {
            self.notify(peer, token).await;
        }
    }

    /// Keeps the status of a task up to date, until dropped.
    pub(super) async fn keep(&mut self, task: &TaskContext) -> Infallible {
        loop {
            self.next().await;
            let message = self.reports.borrow_and_update().message.clone();
            task.set_status_message(message);
            sleep(PACE).await;
        }
    }

    async fn next(&mut self) {
        if self.reports.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    async fn notify(&mut self, peer: &Peer<RoleServer>, token: &ProgressToken) {
        let report = self.reports.borrow_and_update().clone();
        self.told = (report.done as f64).max(self.told + BEAT);
        let message = match report.message.is_empty() {
            true => format!("running for {} s", self.began.elapsed().as_secs()),
            false => report.message,
        };
        let mut told = ProgressNotificationParam::new(token.clone(), self.told).with_message(message);
        told.total = report.total.map(|total| total as f64);
        // A disconnected client is detected elsewhere.
        if let Err(error) = peer.notify_progress(told).await {
            tracing::debug!(%error, "could not send progress");
        }
    }
}
