//! Actions by name: from JSON to the engine and back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agentiso_core::action::{Action, Outcome};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, for_each_action};
use agentiso_engine::{Caller, Engine, Perform};
use serde_json::{Map, Value};

use crate::catalogue;
use crate::lenient::whole_numbers;
use crate::{Answer, Call};

type Running = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;
type Run = fn(Arc<Engine>, Caller, Map<String, Value>, Arc<dyn Progress>) -> Running;

macro_rules! runners {
    ($($action:ident),* $(,)?) => {
        &[$((agentiso_core::action::$action::ABOUT.name, run::<agentiso_core::action::$action> as Run)),*]
    };
}

/// How each action is performed.
static RUNNERS: &[(&str, Run)] = for_each_action!(runners);

fn run<A: Perform>(
    engine: Arc<Engine>,
    caller: Caller,
    arguments: Map<String, Value>,
    progress: Arc<dyn Progress>,
) -> Running {
    Box::pin(async move {
        let mut arguments = arguments;
        arguments.values_mut().for_each(whole_numbers);
        let action = A::deserialize(&arguments).map_err(|_| mistake(A::ABOUT.name, &arguments))?;
        let outcome = engine.act(&caller, action, progress).await?;
        let text = outcome.text();
        let structured =
            serde_json::to_value(outcome).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        Ok(Answer { structured, text })
    })
}

/// The error in arguments, without their values: they may be secrets.
fn mistake(action: &str, arguments: &Map<String, Value>) -> Failure {
    match catalogue::find(action).map(|entry| entry.check(arguments)) {
        Some(Err(mistake)) => mistake.into(),
        _ => Failure::new(Code::InvalidArgument, format!("{action} does not take these parameters")),
    }
}

/// Performs an action by its name.
pub(crate) async fn perform(engine: &Arc<Engine>, caller: &Caller, call: Call) -> Result<Answer, Failure> {
    let Some((_, run)) = RUNNERS.iter().find(|(name, _)| *name == call.action) else {
        return Err(Failure::new(Code::InvalidArgument, format!("there is no action {:?}", call.action)));
    };
    run(Arc::clone(engine), caller.clone(), call.arguments, call.progress).await
}
