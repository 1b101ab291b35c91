//! Progress of a call, sent to a client that asked for it: at most ten times a second, and at least every ten seconds,
//! so that the client knows that the call is alive.

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

/// No client needs to know more often.
const PACE: Duration = Duration::from_millis(100);

/// A client that hears nothing for a minute may give up.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// By how much a heartbeat raises the progress, which must grow with every notification.
const BEAT: f64 = 1.0 / 1024.0;

/// How far a call has come.
#[derive(Clone, Debug, Default)]
struct Report {
    /// It only ever grows, as the protocol asks: what was done in all steps, and one for each beginning and end.
    done: u64,
    /// What `done` will be at the end of this step.
    total: Option<u64>,
    step: String,
    message: String,
}

/// Takes the reports of whoever does the work.
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

/// Passes reports on.
pub(super) struct Reports {
    reports: watch::Receiver<Report>,
    /// The progress that was told last.
    told: f64,
    began: Instant,
    /// Kept so that the last report can still be told after the work, and its reporter, are gone.
    _reporter: Arc<Reporter>,
}

/// A pair of who reports and who passes it on.
pub(super) fn channel() -> (Arc<dyn Progress>, Reports) {
    let (sender, reports) = watch::channel(Report::default());
    let reporter = Arc::new(Reporter(sender));
    (reporter.clone(), Reports { reports, told: -1.0, began: Instant::now(), _reporter: reporter })
}

impl Reports {
    /// Tells a client that gave a token, until dropped.
    pub(super) async fn tell(
        &mut self,
        peer: &Peer<RoleServer>,
        token: Option<&ProgressToken>,
    ) -> Infallible {
        let Some(token) = token else { return pending().await };
        loop {
            // A heartbeat repeats the last report.
            let _ = timeout(HEARTBEAT, self.next()).await;
            self.notify(peer, token).await;
            sleep(PACE).await;
        }
    }

    /// Tells what has not been told yet.
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
        // A client that has gone is told by the end of its connection.
        if let Err(error) = peer.notify_progress(told).await {
            tracing::debug!(%error, "progress could not be told");
        }
    }
}
