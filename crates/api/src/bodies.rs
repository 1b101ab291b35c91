//! Request bodies: how long each may be, how many bytes are held at once, and how long they may take to arrive.
//!
//! The length limit depends on the action and is checked before anything is parsed. Large bodies share a budget, so that a
//! few clients cannot fill the memory; bodies that do not fit wait, and small ones do not wait behind them. A body of
//! unannounced length reserves its part when it turns out to need one, and no body keeps more than its real length. Once a
//! body is parsed, its part is moved to another budget, so that slow actions do not keep new requests waiting. Bodies that
//! are not small are parsed on a thread of their own.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action;
use agentiso_core::wire::body_too_long;
use agentiso_core::{Code, Failure};
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// The limit of most actions.
const USUAL: usize = action::Body::Small.max_bytes();

/// Bodies up to this length are parsed at once and take nothing from the budget.
const SMALL: usize = 64 << 10;
/// The unit of the budgets in bytes: semaphores cannot count every byte.
const UNIT: usize = 1 << 10;
/// Bytes of all bodies that are longer than [`USUAL`], at once.
const LARGE_BUDGET: usize = 128 << 20;
/// Bytes of all bodies from [`SMALL`] up to [`USUAL`], at once.
const USUAL_BUDGET: usize = 64 << 20;
/// Bytes of all bodies that are parsed and whose actions are running. If they need more, they count as bodies again.
const WORKING_BUDGET: usize = 256 << 20;
/// How long a body waits for its part of the budget.
const QUEUE: Duration = Duration::from_secs(30);
/// How long a client may pause while it sends a body.
const PAUSE: Duration = Duration::from_secs(15);
/// How long a client may take before the rate of its body counts, and the least bytes per second afterwards. Only for
/// bodies with a part of the budget: one that trickles must not keep its part from others.
const GRACE: Duration = Duration::from_secs(15);
const LEAST_RATE: u64 = 128 << 10;
/// How long a body may take to arrive.
const LONGEST: Duration = Duration::from_secs(300);

/// The budget that all request bodies share.
#[derive(Clone)]
pub struct Bodies {
    large: Arc<Semaphore>,
    usual: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

/// A body, and its part of the budget while it is kept.
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) part: Part,
}

/// A part of the budget, given back when dropped.
#[derive(Default)]
pub(crate) struct Part(Option<OwnedSemaphorePermit>);

impl Default for Bodies {
    fn default() -> Self {
        Self::of(LARGE_BUDGET, USUAL_BUDGET, WORKING_BUDGET)
    }
}

impl Bodies {
    fn of(large: usize, usual: usize, working: usize) -> Self {
        let budget = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self { large: budget(large), usual: budget(usual), working: budget(working) }
    }

    /// Reads a body of at most `limit` bytes.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body, limit: usize) -> Result<Held, Failure> {
        let announced =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|announced| announced > limit) {
            return Err(body_too_long(limit));
        }
        let mut part = self.part(announced.unwrap_or(0)).await?;
        let reserved = announced.map_or(SMALL, |announced| announced.max(SMALL));
        let collecting = self.collect(body, limit, reserved, &mut part);
        let bytes = timeout(LONGEST, collecting).await.map_err(|_| too_slow())??;
        part.shrink_to(bytes.len());
        Ok(Held { bytes, part })
    }

    /// Moves the part of a body to the budget of running actions.
    pub(crate) fn while_working(&self, part: Part) -> Part {
        let units = part.0.as_ref().map(OwnedSemaphorePermit::num_permits);
        let Some(units) = units.and_then(|units| u32::try_from(units).ok()) else { return part };
        match Arc::clone(&self.working).try_acquire_many_owned(units) {
            Ok(working) => Part(Some(working)),
            Err(_) => part,
        }
    }

    async fn collect(
        &self,
        body: Body,
        limit: usize,
        mut reserved: usize,
        part: &mut Part,
    ) -> Result<Bytes, Failure> {
        let mut pieces = body.into_data_stream();
        let mut collected = Vec::new();
        // Without the time that the body waits for its part of the budget.
        let mut waited = Duration::ZERO;
        loop {
            let patience = match part.0 {
                Some(_) => PAUSE.min(patience(collected.len()).saturating_sub(waited)),
                None => PAUSE,
            };
            let began = Instant::now();
            let piece = timeout(patience, pieces.next()).await.map_err(|_| too_slow())?;
            waited += began.elapsed();
            let Some(piece) = piece else { break };
            let piece = piece.map_err(|error| {
                Failure::new(Code::InvalidArgument, format!("the body could not be read: {error}"))
            })?;
            if piece.len() > limit - collected.len() {
                return Err(body_too_long(limit));
            }
            let length = collected.len() + piece.len();
            if length > reserved {
                // Everything that may still arrive, at once: bodies that asked again and again could wait for each other.
                reserved = if length <= USUAL { USUAL.min(limit) } else { limit };
                *part = self.part(reserved).await?;
            }
            collected.extend_from_slice(&piece);
        }
        Ok(collected.into())
    }

    async fn part(&self, size: usize) -> Result<Part, Failure> {
        if size <= SMALL {
            return Ok(Part(None));
        }
        let budget = if size <= USUAL { &self.usual } else { &self.large };
        let units = u32::try_from(size.div_ceil(UNIT)).unwrap_or(u32::MAX);
        match timeout(QUEUE, Arc::clone(budget).acquire_many_owned(units)).await {
            Ok(Ok(part)) => Ok(Part(Some(part))),
            _ => Err(Failure::new(Code::RateLimited, "too many large requests at once")
                .with_remedy("send it again later, or in smaller pieces")),
        }
    }
}

impl Part {
    /// Returns what a body of this length does not need.
    fn shrink_to(&mut self, length: usize) {
        let needed = if length <= SMALL { 0 } else { length.div_ceil(UNIT) };
        if let Some(part) = &mut self.0 {
            drop(part.split(part.num_permits().saturating_sub(needed)));
        }
    }
}

impl Held {
    /// Parses it, on another thread unless it is small. An error never quotes the body.
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(&self) -> Result<T, serde_json::Error> {
        if self.bytes.len() <= SMALL {
            return serde_json::from_slice(&self.bytes);
        }
        let bytes = self.bytes.clone();
        let parsing = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes));
        parsing.await.unwrap_or_else(|error| Err(serde::de::Error::custom(error)))
    }

    /// Whether it is parsed without another thread.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes.len() <= SMALL
    }
}

/// How long the client may take to send more than `collected` bytes.
fn patience(collected: usize) -> Duration {
    GRACE + Duration::from_millis(collected as u64 * 1000 / LEAST_RATE)
}

fn too_slow() -> Failure {
    Failure::new(Code::InvalidArgument, "the body of the request did not arrive in time")
}

#[cfg(test)]
mod tests {
    use agentiso_core::wire::body_limit;
    use axum::http::HeaderValue;
    use futures_util::FutureExt;

    use super::*;

    const FILES: usize = action::Body::File.max_bytes();

    fn of_length(length: usize) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from(length))])
    }

    #[tokio::test]
    async fn a_body_that_is_announced_too_long_is_refused_before_it_is_read() {
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = Bodies::default().read(&of_length(USUAL + 1), never, body_limit("exec_kill")).await;
        assert_eq!(refused.map(|held| held.bytes.len()).unwrap_err().code(), Code::FileTooLarge);
        let long = Body::from(vec![b' '; USUAL + 1]);
        let refused = Bodies::default().read(&HeaderMap::new(), long, USUAL).await;
        assert_eq!(refused.map(|held| held.bytes.len()).unwrap_err().code(), Code::FileTooLarge);
    }

    #[tokio::test]
    async fn large_bodies_share_a_budget_and_small_ones_do_not_wait_for_it() {
        let bodies = Bodies::of(4 * USUAL, 4 * USUAL, 4 * USUAL);
        let large = |bodies: Bodies| async move {
            let length = 3 * USUAL;
            bodies
                .read(&of_length(length), Body::from(vec![b' '; length]), FILES)
                .await
                .map_err(|it| it.code())
        };
        let first = large(bodies.clone()).await.map(Some).unwrap();
        let mut second = Box::pin(large(bodies.clone()));
        assert!((&mut second).now_or_never().is_none());
        let small = bodies.read(&of_length(2), Body::from("{}"), USUAL).now_or_never().unwrap();
        assert_eq!(small.map(|held| held.bytes).ok(), Some(Bytes::from("{}")));
        drop(first);
        second.await.map(drop).unwrap();
    }

    /// A body that arrives in pieces, with a pause before each.
    fn in_pieces(count: usize, length: usize, pause: Duration) -> Body {
        Body::from_stream(futures_util::stream::unfold(0, move |sent| async move {
            tokio::time::sleep(pause).await;
            (sent < count).then(|| (Ok::<_, std::io::Error>(Bytes::from(vec![b' '; length])), sent + 1))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_that_trickles_is_given_up_soon() {
        let bodies = Bodies::of(4 * USUAL, 4 * USUAL, 4 * USUAL);
        let began = Instant::now();
        let trickle = in_pieces(1000, 1, Duration::from_secs(10));
        let late = bodies.read(&of_length(3 * USUAL), trickle, FILES).await;
        assert_eq!(late.map(|held| held.bytes.len()).unwrap_err().code(), Code::InvalidArgument);
        assert!(began.elapsed() < 2 * GRACE, "{:?}", began.elapsed());
        assert_eq!(bodies.large.available_permits(), 4 * USUAL / UNIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_that_keeps_its_rate_arrives() {
        let bodies = Bodies::of(4 * USUAL, 4 * USUAL, 4 * USUAL);
        let (count, length) = (3 * USUAL / (1 << 20), 1 << 20);
        let slow = in_pieces(count, length, Duration::from_secs(8));
        let read = bodies.read(&of_length(count * length), slow, FILES).await;
        assert_eq!(read.map(|held| held.bytes.len()).map_err(|failure| failure.code()), Ok(3 * USUAL));
        let small = in_pieces(20, 10, Duration::from_secs(10));
        let read = bodies.read(&of_length(200), small, USUAL).await;
        assert_eq!(read.map(|held| held.bytes.len()).map_err(|failure| failure.code()), Ok(200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up_and_gives_its_part_back() {
        let bodies = Bodies::of(4 * USUAL, 4 * USUAL, 4 * USUAL);
        let never = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        for _ in 0..3 {
            let late = bodies.read(&of_length(3 * USUAL), never(), FILES).await;
            assert_eq!(late.map(|held| held.bytes.len()).unwrap_err().code(), Code::InvalidArgument);
        }
        assert_eq!(bodies.large.available_permits(), 4 * USUAL / UNIT);
    }

    #[tokio::test]
    async fn a_body_of_unannounced_length_takes_what_it_needs_and_keeps_what_it_has() {
        let bodies = Bodies::of(4 * USUAL, 4 * USUAL, 4 * USUAL);
        let free = |bodies: &Bodies| (bodies.large.available_permits(), bodies.usual.available_permits());
        let all = free(&bodies);
        let chunked = |length: usize, limit| {
            let pieces = (0..length.div_ceil(1000)).map(move |at| {
                let piece = vec![b' '; 1000.min(length - at * 1000)];
                Ok::<_, std::io::Error>(Bytes::from(piece))
            });
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            let bodies = bodies.clone();
            async move { bodies.read(&HeaderMap::new(), body, limit).await.map_err(|it| it.code()).unwrap() }
        };
        let tiny = chunked(2, 4 * USUAL).await;
        assert_eq!((tiny.bytes.len(), free(&bodies)), (2, all));
        let usual = chunked(SMALL + UNIT, 4 * USUAL).await;
        assert_eq!(free(&bodies), (all.0, all.1 - (SMALL + UNIT) / UNIT));
        let large = chunked(2 * USUAL, 4 * USUAL).await;
        assert_eq!(free(&bodies), (all.0 - 2 * USUAL / UNIT, all.1 - (SMALL + UNIT) / UNIT));
        drop(usual);
        // While its action is carried out, others can be read.
        let working = bodies.while_working(large.part);
        assert_eq!(free(&bodies), all);
        let next = chunked(3 * USUAL, 4 * USUAL).await;
        let waiting = bodies.while_working(next.part);
        assert_eq!(free(&bodies), (all.0 - 3 * USUAL / UNIT, all.1));
        drop((working, waiting));
        assert_eq!((free(&bodies), bodies.working.available_permits()), (all, all.0));
    }

    #[tokio::test]
    async fn a_large_body_is_parsed_like_a_small_one() {
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(SMALL));
        let held = Held { bytes: text.into(), part: Part::default() };
        let value: serde_json::Value = held.parse().await.unwrap();
        assert_eq!(value["a"].as_str().map(str::len), Some(SMALL));
    }
}
