//! All actions there are, with what they say about themselves.

use agentiso_core::action::{self, About, Action, Outcome};
use agentiso_core::{Code, Failure};
use schemars::Schema;
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
    input: fn() -> Schema,
    output: fn() -> Schema,
    check: fn(&Map<String, Value>) -> Result<(), Unreadable>,
    text: fn(&Value) -> Result<String, Failure>,
}

impl Entry {
    const fn of<A: Action>() -> Self {
        Self {
            about: A::ABOUT,
            input: schema::<A>,
            output: schema::<A::Outcome>,
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
    pub fn input_schema(&self) -> Schema {
        (self.input)()
    }

    /// The schema of its outcome.
    pub fn output_schema(&self) -> Schema {
        (self.output)()
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

/// Everything in one piece, because many clients do not follow references.
fn schema<T: schemars::JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
}

/// Every action, in the order in which they are shown.
pub static ALL: &[Entry] = &[
    Entry::of::<action::WorkspaceCreate>(),
    Entry::of::<action::WorkspaceDestroy>(),
    Entry::of::<action::WorkspaceStart>(),
    Entry::of::<action::WorkspaceStop>(),
    Entry::of::<action::WorkspaceList>(),
    Entry::of::<action::WorkspaceInfo>(),
    Entry::of::<action::WorkspaceLogs>(),
    Entry::of::<action::WorkspaceRename>(),
    Entry::of::<action::WorkspaceUpdate>(),
    Entry::of::<action::WorkspaceSuspend>(),
    Entry::of::<action::WorkspaceResume>(),
    Entry::of::<action::WorkspaceFork>(),
    Entry::of::<action::WorkspaceAdopt>(),
    Entry::of::<action::WorkspaceIp>(),
    Entry::of::<action::Exec>(),
    Entry::of::<action::JobStart>(),
    Entry::of::<action::JobPoll>(),
    Entry::of::<action::JobKill>(),
    Entry::of::<action::JobList>(),
    Entry::of::<action::JobWrite>(),
    Entry::of::<action::SetEnv>(),
    Entry::of::<action::FileRead>(),
    Entry::of::<action::FileWrite>(),
    Entry::of::<action::FileEdit>(),
    Entry::of::<action::FileList>(),
    Entry::of::<action::FileStat>(),
    Entry::of::<action::FileMove>(),
    Entry::of::<action::FileDelete>(),
    Entry::of::<action::FileMkdir>(),
    Entry::of::<action::FileGlob>(),
    Entry::of::<action::FileGrep>(),
    Entry::of::<action::FileTransfer>(),
    Entry::of::<action::SnapshotCreate>(),
    Entry::of::<action::SnapshotRestore>(),
    Entry::of::<action::SnapshotList>(),
    Entry::of::<action::SnapshotDelete>(),
    Entry::of::<action::SnapshotDiff>(),
    Entry::of::<action::PortForward>(),
    Entry::of::<action::PortForwardRemove>(),
    Entry::of::<action::PortForwardList>(),
    Entry::of::<action::NetworkPolicy>(),
    Entry::of::<action::GitClone>(),
    Entry::of::<action::GitStatus>(),
    Entry::of::<action::GitCommit>(),
    Entry::of::<action::GitPush>(),
    Entry::of::<action::GitDiff>(),
    Entry::of::<action::Timeline>(),
    Entry::of::<action::ServerStatus>(),
];

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
            for schema in [entry.input_schema(), entry.output_schema()] {
                let value = schema.to_value();
                assert_eq!(value["type"], "object", "{}", entry.about.name);
                assert!(!value.to_string().contains("$ref"), "{} refers elsewhere", entry.about.name);
            }
        }
    }
}
