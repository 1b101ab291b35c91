//! The request, normalised.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What was asked for.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RequestReport {
    /// The vault as it was named; null if none was.
    pub vault: Option<String>,
    /// The directory in the vault in which the command starts.
    pub cwd: String,
    /// Whether the command may not change the vault.
    pub readonly: bool,
    /// Whether the vault stays mounted after the command.
    pub keep_mount: bool,
    /// The directory at which the command sees the vault, if one was given.
    pub mountpoint: Option<String>,
    /// When a checkpoint is taken before the command.
    pub checkpoint_mode: CheckpointMode,
    /// The command as one line: the shell line, or the arguments quoted for a shell.
    pub command: String,
    /// How the command was given.
    pub command_mode: CommandMode,
    /// The time limit.
    pub timeout: TimeoutReport,
    /// The arguments, exactly; for a shell line the line alone.
    pub argv: Vec<String>,
    /// The fork to run in: a name, `auto`, or null for the vault itself.
    pub fork: Option<String>,
    /// The names of the variables that were given. Values are not repeated.
    pub env: Vec<String>,
    /// Whether the command reads the caller's standard input.
    pub stdin: bool,
    /// Whether output was passed on while the command ran.
    pub stream: bool,
    /// Whether the command was only judged.
    pub dry_run: bool,
}

/// When a checkpoint is taken before the command.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointMode {
    /// If the policy says so.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How the command was given.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandMode {
    /// A program with its arguments.
    #[default]
    Argv,
    /// A line for a shell.
    Shell,
}

/// A time limit: `"none"`, or `{"millis": N}`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimeoutReport(pub Option<Duration>);

#[derive(Deserialize, Serialize)]
struct Millis {
    millis: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Word(String),
    Millis(Millis),
}

impl Serialize for TimeoutReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_str("none"),
            Some(limit) => {
                Millis { millis: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for TimeoutReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::deserialize(deserializer)? {
            Either::Word(word) if word == "none" => Ok(Self(None)),
            Either::Word(word) => Err(serde::de::Error::custom(format!("{word:?} is no time limit"))),
            Either::Millis(limit) => Ok(Self(Some(Duration::from_millis(limit.millis)))),
        }
    }
}

impl JsonSchema for TimeoutReport {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timeout".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`\"none\"`, or the limit in milliseconds.",
            "oneOf": [
                { "type": "string", "const": "none" },
                {
                    "type": "object",
                    "properties": { "millis": { "type": "integer", "minimum": 0 } },
                    "required": ["millis"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_has_the_form_of_version_1() {
        for (limit, json) in [(None, "\"none\""), (Some(Duration::from_millis(1500)), "{\"millis\":1500}")] {
            let limit = TimeoutReport(limit);
            assert_eq!(serde_json::to_string(&limit).unwrap(), json);
            assert_eq!(serde_json::from_str::<TimeoutReport>(json).unwrap(), limit);
        }
        serde_json::from_str::<TimeoutReport>("\"never\"").unwrap_err();
    }
}
