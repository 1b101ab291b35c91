//! All actions there are, with what they say about themselves.

use std::sync::LazyLock;

use agentiso_core::action::{self, About, Action, Outcome};
use agentiso_core::{Code, Failure, for_each_action};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::mistake::Mistake;

/// Why arguments could not be read, and where.
pub(crate) type Unreadable = serde_path_to_error::Error<serde_json::Error>;

/// The schemas of an action in a document whose types refer to each other by name.
#[derive(Clone, Copy)]
struct Components {
    /// The parameters, in place.
    described_input: fn(&mut SchemaGenerator) -> Value,
    /// A reference to the parameters.
    input: fn(&mut SchemaGenerator) -> Value,
    /// A reference to the outcome.
    output: fn(&mut SchemaGenerator) -> Value,
}

/// An action, without its type.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it says about itself.
    pub about: About,
    schemas: &'static LazyLock<Schemas>,
    components: Components,
    check: fn(&Map<String, Value>) -> Result<(), Unreadable>,
    text: fn(&Value) -> Result<String, Failure>,
}

impl Entry {
    const fn of<A: Action>(schemas: &'static LazyLock<Schemas>) -> Self {
        Self {
            about: A::ABOUT,
            schemas,
            components: Components {
                described_input: |generator| A::json_schema(generator).to_value(),
                input: |generator| generator.subschema_for::<A>().to_value(),
                output: |generator| generator.subschema_for::<A::Outcome>().to_value(),
            },
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

    /// The schema of its parameters in a document of named components.
    pub(crate) fn described_input(&self, generator: &mut SchemaGenerator) -> Value {
        let mut input = (self.components.described_input)(generator);
        if let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) {
            properties.values_mut().for_each(without_null);
        }
        input
    }

    /// A reference to the component of its parameters.
    pub(crate) fn input_component(&self, generator: &mut SchemaGenerator) -> Value {
        (self.components.input)(generator)
    }

    /// A reference to the component of its outcome.
    pub(crate) fn output_component(&self, generator: &mut SchemaGenerator) -> Value {
        (self.components.output)(generator)
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
        let mut input = schema::<A>();
        if let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) {
            properties.values_mut().for_each(without_null);
        }
        Self { input, output: schema::<A::Outcome>() }
    }
}

/// An optional parameter is left out. Null is understood as absent, but not described: rules such as "one of these two
/// is required" are about parameters that have a value.
pub(crate) fn without_null(property: &mut Value) {
    if let Some(Value::Array(choices)) = property.get("anyOf")
        && let [Value::Object(only)] =
            choices.iter().filter(|choice| choice["type"] != "null").cloned().collect::<Vec<_>>().as_slice()
        && let Some(property) = property.as_object_mut()
    {
        property.remove("anyOf");
        property.extend(only.clone());
    }
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            property["type"] = only.clone();
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
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
