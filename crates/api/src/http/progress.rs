//! An action as a stream of events: how far it has come, and at last what came of it.

use std::convert::Infallible;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::answer::ErrorBody;
use crate::dispatch::Direct;
use crate::{Backend, Call};

/// Tells a stream.
struct Told(mpsc::UnboundedSender<Value>);

impl Progress for Told {
    fn step(&self, what: &str, total: Option<u64>) {
        let _ = self.0.send(json!({ "step": what, "total": total }));
    }

    fn advance(&self, amount: u64) {
        let _ = self.0.send(json!({ "advance": amount }));
    }

    fn done(&self, remark: &str) {
        let _ = self.0.send(json!({ "done": remark }));
    }
}

/// Carries an action out while its caller listens. When the caller goes, the action's future goes with it.
pub(super) fn events(
    backend: Direct,
    action: &'static str,
    arguments: Map<String, Value>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (sender, mut told) = mpsc::unbounded_channel();
    let progress: Arc<dyn Progress> = Arc::new(Told(sender));
    let stream = async_stream::stream! {
        let call = backend.call(Call { action, arguments, progress });
        tokio::pin!(call);
        let result = loop {
            tokio::select! {
                biased;
                Some(word) = told.recv() => yield Ok(event("progress", &word)),
                result = &mut call => break result,
            }
        };
        while let Ok(word) = told.try_recv() {
            yield Ok(event("progress", &word));
        }
        yield Ok(match result {
            Ok(answer) => event("result", &answer.structured),
            Err(failure) => event("error", &json!(ErrorBody::from(&failure))),
        });
    };
    Sse::new(stream).keep_alive(KeepAlive::default())
}

pub(super) fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
