//! Retries requests to a machine that is held while its memory is copied. That takes milliseconds, during which the agent
//! starts nothing.

use std::time::Duration;

use agentiso_core::ports::link::{ErrorKind, LinkError};
use tokio::time::Instant;

/// How long a machine may be held before the request fails.
const AT_MOST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// Repeats a request for as long as the machine is held.
pub(crate) async fn while_held<T, F>(mut ask: impl FnMut() -> F) -> Result<T, LinkError>
where
    F: Future<Output = Result<T, LinkError>>,
{
    let deadline = Instant::now() + AT_MOST;
    loop {
        match ask().await {
            Err(LinkError::Guest(error)) if error.kind == ErrorKind::Busy && Instant::now() < deadline => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            answered => return answered,
        }
    }
}
