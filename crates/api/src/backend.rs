//! Whoever carries actions out.

use std::future::Future;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use serde_json::{Map, Value};

/// Whoever carries actions out: the engine itself in the daemon, or a daemon behind a socket.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Carries an action out. When the future is dropped the caller has gone: commands in a guest are ended, changes
    /// of a workspace are not left half done but finished.
    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Carries an action out for a client that calls itself so. Whoever keeps no record need not care.
    fn call_for(&self, client: &str, call: Call) -> impl Future<Output = Result<Answer, Failure>> + Send {
        let _ = client;
        self.call(call)
    }
}

/// An action that is asked for.
#[derive(Clone)]
pub struct Call {
    /// Its name.
    pub action: &'static str,
    /// Its parameters.
    pub arguments: Map<String, Value>,
    /// Who is told how far it has come.
    pub progress: Arc<dyn Progress>,
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// For programs, as its schema says.
    pub structured: Value,
    /// For readers.
    pub text: String,
}
