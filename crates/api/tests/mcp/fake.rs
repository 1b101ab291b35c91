//! A backend that only records its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentiso_api::{Answer, Backend, Call, catalogue};
use agentiso_core::{Code, Failure};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// Records calls and gives the configured replies, or by default a valid outcome.
#[derive(Clone, Default)]
pub struct Fake(Arc<Inner>);

#[derive(Default)]
struct Inner {
    calls: Mutex<Vec<(&'static str, Value)>>,
    answers: Mutex<HashMap<&'static str, Reply>>,
    client: Mutex<String>,
    /// A hanging call has begun.
    begun: Notify,
    /// A hanging call was dropped.
    dropped: Notify,
    /// A hanging call may end.
    released: Notify,
}

/// How to reply to a call.
#[derive(Clone)]
pub enum Reply {
    /// Returns this outcome.
    Outcome(Value),
    /// Fails.
    Fails(Code, &'static str, &'static str),
    /// Fails unless base64 was requested.
    IsBinary,
    /// Reports progress, then returns.
    Reports,
    /// Reports progress, then hangs until released.
    Hangs,
    /// Panics.
    Panics,
}

struct Dropped(Arc<Inner>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

impl Fake {
    /// Sets the reply to an action.
    pub fn reply(&self, action: &'static str, reply: Reply) -> &Self {
        self.0.answers.lock().unwrap().insert(action, reply);
        self
    }

    /// The calls since the last call of this function.
    pub fn calls(&self) -> Vec<(&'static str, Value)> {
        std::mem::take(&mut self.0.calls.lock().unwrap())
    }

    /// The name of the last client.
    pub fn client(&self) -> String {
        self.0.client.lock().unwrap().clone()
    }

    /// Waits until a hanging call has begun.
    pub async fn begun(&self) {
        self.0.begun.notified().await;
    }

    /// Waits until a hanging call was dropped.
    pub async fn dropped(&self) {
        self.0.dropped.notified().await;
    }

    /// Lets a hanging call end.
    pub fn release(&self) {
        self.0.released.notify_one();
    }
}

impl Backend for Fake {
    async fn call_for(&self, client: &str, call: Call) -> Result<Answer, Failure> {
        client.clone_into(&mut self.0.client.lock().unwrap());
        self.call(call).await
    }

    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        let entry = catalogue::find(call.action).expect("a known action");
        self.0.calls.lock().unwrap().push((call.action, Value::Object(call.arguments.clone())));
        let reply = self.0.answers.lock().unwrap().get(call.action).cloned();
        let structured = match reply {
            Some(Reply::Outcome(outcome)) => outcome,
            Some(Reply::Fails(code, message, remedy)) => {
                return Err(Failure::new(code, message).with_remedy(remedy));
            }
            Some(Reply::IsBinary) if !call.arguments.contains_key("encoding") => {
                return Err(Failure::new(Code::FileNotText, "the file is not text"));
            }
            Some(Reply::Reports) => {
                call.progress.step("unpacking", Some(100));
                call.progress.advance(60);
                call.progress.advance(40);
                call.progress.done("100 files");
                fitting(entry.output_schema())
            }
            Some(Reply::Hangs) => {
                let guard = Dropped(self.0.clone());
                call.progress.step("hanging", None);
                self.0.begun.notify_one();
                self.0.released.notified().await;
                std::mem::forget(guard);
                fitting(entry.output_schema())
            }
            Some(Reply::Panics) => panic!("requested by the test"),
            Some(Reply::IsBinary) | None => fitting(entry.output_schema()),
        };
        let text = entry.text(&structured)?;
        Ok(Answer { structured, text })
    }
}

/// A value that is valid for a schema.
pub fn fitting(schema: &Value) -> Value {
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    if let Some(values) = schema["enum"].as_array() {
        return values.first().cloned().unwrap_or_default();
    }
    match kind {
        Some("object") => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            Value::Object(properties.iter().map(|(name, schema)| (name.clone(), fitting(schema))).collect())
        }
        Some("array") => json!([fitting(&schema["items"])]),
        Some("string") => json!("some text"),
        Some("integer") => json!(7),
        Some("number") => json!(7.5),
        Some("boolean") => json!(true),
        _ => match schema["anyOf"].as_array().and_then(|ways| ways.first()) {
            Some(way) => fitting(way),
            None => Value::Object(Map::new()),
        },
    }
}
