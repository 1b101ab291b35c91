//! The effect of forks on commands in other workspaces.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};

use crate::aside::{Aside, silent};
use crate::execs::run;
use crate::report::{Measurement, percentile};
use crate::starts::{MANY, ms};
use agentiso_runtime::workspaces::{ForkRequest, ForkSource};

/// Commands that are run while nothing else runs.
const QUIET: u64 = 100;
/// The fraction of commands that may take longer.
const P99: f64 = 0.99;

pub(super) async fn measure(
    aside: &Aside,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let source = aside.create("source", false).await?;
    let neighbour = aside.create("neighbour", false).await?;
    let neighbour = aside.workspaces.attach(neighbour.id).await?;
    let command = ["/bin/true"];
    // The first ones warm up.
    for _ in 0..10 {
        run(neighbour.machine(), &command).await?;
    }
    progress.step("Running commands during forks", Some(QUIET));
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..QUIET {
        let began = Instant::now();
        run(neighbour.machine(), &command).await?;
        quiet.push(ms(began.elapsed()));
        progress.advance(1);
    }
    let request = ForkRequest {
        workspace: source.id,
        source: ForkSource::Now,
        name: Some("crowd".parse()?),
        count: MANY,
        all_or_nothing: true,
        owner: None,
        network: None,
    };
    let workspaces = aside.workspaces.clone();
    let forking = tokio::spawn(async move { workspaces.fork(&request, &silent()).await });
    while !forking.is_finished() {
        let began = Instant::now();
        run(neighbour.machine(), &command).await?;
        beside.push(ms(began.elapsed()));
    }
    let forked = forking.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))??;
    progress.done("");
    drop(neighbour);
    for fork in &forked.forks {
        aside.remove(fork.name.as_str()).await?;
    }
    let (before, during) = (percentile(&quiet, P99), percentile(&beside, P99));
    Ok(vec![
        Measurement::one("a command in another workspace, p99", "ms", before),
        Measurement::one(format!("  during {MANY} forks"), "ms", during),
        Measurement::one("  relative to quiet", "times", during / before).at_most(10.0),
    ])
}
