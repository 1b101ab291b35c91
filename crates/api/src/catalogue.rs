//! All actions there are, with what they say about themselves.

use std::sync::LazyLock;

use agentiso_core::action::{self, About, Action, Outcome};
use agentiso_core::{Code, Failure, for_each_action};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::mistake::Mistake;

/// Why arguments could not be read, and where.
pub(crate) type Unreadable = serde_path_to_error::Error<serde_json::Error>;

/// An action, without its type.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it says about itself.
    pub about: About,
    schemas: &'static LazyLock<Schemas>,
    check: fn(&Map<String, Value>) -> Result<(), Unreadable>,
    text: fn(&Value) -> Result<String, Failure>,
}

impl Entry {
    const fn of<A: Action>(schemas: &'static LazyLock<Schemas>) -> Self {
        Self {
            about: A::ABOUT,
            schemas,
            check: |arguments| serde_path_to_error::deserialize::<_, A>(arguments).map(drop),
            text: |value| {
                let outcome: A::Outcome = serde_json::from_value(value.clone()).map_err(|error| {
                    let message =
                        format!("the outcome of {} is not what it should be: {error}", A::ABOUT.name);
                    Failure::new(Code::Internal, message)
                })?;
                Ok(outcome.text())
            },
        }
    }

    /// The schema of its parameters.
    pub fn input_schema(&self) -> &'static Value {
        &self.schemas.input
    }

    /// The schema of its outcome.
    pub fn output_schema(&self) -> &'static Value {
        &self.schemas.output
    }

    /// Whether these are arguments the action takes.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Mistake> {
        (self.check)(arguments).map_err(|error| Mistake::find(self, arguments, &error))
    }

    /// An outcome in words.
    pub fn text(&self, outcome: &Value) -> Result<String, Failure> {
        (self.text)(outcome)
    }
}

/// The schemas of an action. They are generated when they are first needed, and once.
struct Schemas {
    input: Value,
    output: Value,
}

impl Schemas {
    fn of<A: Action>() -> Self {
        Self { input: schema::<A>(), output: schema::<A::Outcome>() }
    }
}

/// Everything in one piece, because many clients do not follow references.
fn schema<T: schemars::JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

macro_rules! entries {
    ($($action:ident),* $(,)?) => {
        &[$({
            static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::of::<action::$action>);
            Entry::of::<action::$action>(&SCHEMAS)
        }),*]
    };
}

/// Every action, in the order in which they are shown.
pub static ALL: &[Entry] = for_each_action!(entries);

/// The action of a name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.about.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_action_has_its_own_name_and_schemas_of_objects() {
        let mut names = HashSet::new();
        for entry in ALL {
            assert!(names.insert(entry.about.name), "{} is there twice", entry.about.name);
            for value in [entry.input_schema(), entry.output_schema()] {
                assert_eq!(value["type"], "object", "{}", entry.about.name);
                assert!(!value.to_string().contains("$ref"), "{} refers elsewhere", entry.about.name);
            }
        }
    }
}
