//! Every action there is, by name: from the one list of them, so that a new one is here by itself.

use std::pin::Pin;
use std::sync::Arc;

use agentiso_core::action::*;
use agentiso_core::{Code, Failure};
use agentiso_engine::{Caller, Engine};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::world::silent;

type Called<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'a>>;

/// An action.
pub struct Entry {
    pub about: About,
    /// The schema of its parameters.
    pub schema: fn() -> Value,
    /// What arguments refer to; none if they are no arguments of the action.
    pub subjects: fn(&Value) -> Option<Vec<String>>,
    /// Carries it out.
    pub call: for<'a> fn(&'a Arc<Engine>, &'a Caller, Value) -> Called<'a>,
}

macro_rules! table {
    ($($action:ident),* $(,)?) => {
        pub const ALL: &[Entry] = &[$(Entry {
            about: <$action as Action>::ABOUT,
            schema: schema::<$action>,
            subjects: |arguments| {
                let action: $action = serde_json::from_value(arguments.clone()).ok()?;
                Some(action.subjects().into_iter().map(text).collect())
            },
            call: |engine, caller, arguments| Box::pin(async move {
                let action: $action = serde_json::from_value(arguments)
                    .map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))?;
                let outcome = engine.act(caller, action, silent()).await?;
                Ok(serde_json::to_value(outcome).unwrap())
            }),
        }),*];
    };
}
agentiso_core::for_each_action!(table);

fn text(subject: Subject<'_>) -> String {
    match subject {
        Subject::Workspace(text)
        | Subject::Removed(text)
        | Subject::Snapshot(text)
        | Subject::Point(text)
        | Subject::Claimed(text)
        | Subject::Other(text)
        | Subject::Past(text) => text.to_owned(),
    }
}

/// Carries out an action by its name.
pub async fn call(
    engine: &Arc<Engine>,
    caller: &Caller,
    action: &str,
    arguments: Value,
) -> Result<Value, Failure> {
    let entry = ALL.iter().find(|entry| entry.about.name == action);
    let entry = entry.unwrap_or_else(|| panic!("there is no action {action}"));
    (entry.call)(engine, caller, arguments).await
}

/// The schema of an action's parameters, without references.
fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<A>().to_value()
}
