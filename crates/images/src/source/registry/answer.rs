//! Reading responses of a registry, with limits.

use std::time::Duration;

use reqwest::Response;

use super::client::Fault;

/// How long an answer that is kept in memory may take to arrive.
const SMALL_WITHIN: Duration = Duration::from_secs(120);

/// Reads a whole answer; more than `max` bytes are refused, and reading ends as soon as there are more.
pub(super) async fn read_all(mut answer: Response, max: u64, what: &'static str) -> Result<Vec<u8>, Fault> {
    let too_large = || Fault::TooLarge { what, max };
    if answer.content_length().is_some_and(|length| length > max) {
        return Err(too_large());
    }
    let reading = async {
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if (bytes.len() + chunk.len()) as u64 > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    tokio::time::timeout(SMALL_WITHIN, reading).await.unwrap_or(Err(Fault::TooSlow { what }))
}

/// Reads the start of an answer and leaves the rest: it is only quoted in an error.
pub(super) async fn read_start(mut answer: Response, max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < max {
            let Ok(Some(chunk)) = answer.chunk().await else { break };
            bytes.extend_from_slice(&chunk[..chunk.len().min(max - bytes.len())]);
        }
    };
    // Use what arrived in time.
    let _ = tokio::time::timeout(SMALL_WITHIN, reading).await;
    bytes
}
