//! What a network adds to a create and to a fork.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use crate::Options;
use crate::aside::Aside;
use crate::report::{Measurement, median};
use crate::starts::ms;

/// What a network may add.
const MORE: f64 = 15.0;

pub(super) async fn measure(
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    // The first one starts the router.
    aside.create("plain", false).await?;
    aside.create_online("online").await?;
    let rounds = options.rounds.max(5);
    progress.step("Creating and forking with and without a network", Some(rounds.into()));
    let (mut creates, mut forks) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        for (index, source) in ["plain", "online"].into_iter().enumerate() {
            let began = Instant::now();
            match index {
                0 => aside.create("new", false).await?,
                _ => aside.create_online("new").await?,
            };
            creates[index].push(ms(began.elapsed()));
            aside.remove("new").await?;
            let began = Instant::now();
            aside.fork(source, "fork", 1).await?;
            forks[index].push(ms(began.elapsed()));
            aside.remove("fork").await?;
        }
        progress.advance(1);
    }
    progress.done("");
    aside.remove("plain").await?;
    aside.remove("online").await?;
    let rows = |what: &str, [plain, online]: &[Vec<f64>; 2]| {
        [
            Measurement::new(format!("{what} with a network"), "ms", online),
            Measurement::one("  more than without", "ms", median(online) - median(plain)).at_most(MORE),
        ]
    };
    Ok([rows("create", &creates), rows("fork", &forks)].into_iter().flatten().collect())
}
