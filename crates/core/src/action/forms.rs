//! The forms of parameters: bounds, patterns and examples.
//!
//! Schemas are generated from the types here, and the code that carries actions out checks against the same constants.
//! Patterns use only syntax that all dialects of regular expressions share. Lengths are in characters.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ports::records::MAX_KEY;
use crate::{SnapshotName, WorkspaceName};

/// The longest time limit of a command that is waited for, in seconds.
pub const MAX_EXEC_SECS: u64 = 86_400;
/// The longest time limit of a background command, in seconds.
pub const MAX_JOB_SECS: u64 = 30 * 86_400;
/// The longest wait for a background command, in seconds.
pub const MAX_WAIT_SECS: u64 = 3600;
/// The longest time limit of a git command, in seconds.
pub const MAX_GIT_SECS: u64 = 7200;
/// The longest time to live or idle timeout of a workspace, in seconds: ten years.
pub const MAX_LIFETIME_SECS: u64 = 10 * 365 * 86_400;

/// The most bytes of output of a command that is waited for.
pub const MAX_EXEC_OUTPUT: u64 = 8 << 20;
/// The most bytes of each output of a background command in one result.
pub const MAX_JOB_OUTPUT: u64 = 1 << 20;
/// The most bytes of a diff.
pub const MAX_DIFF_BYTES: u64 = 4 << 20;
/// The largest file that is read, written or edited in one call.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// The longest command line, in bytes.
pub const MAX_COMMAND: usize = 2 << 20;
/// The longest path.
pub const MAX_PATH: usize = 4096;
/// The longest pattern of a search.
pub const MAX_PATTERN: usize = 1024;
/// The longest description of a snapshot.
pub const MAX_DESCRIPTION: usize = 1024;
/// The longest name of a variable.
pub const MAX_VARIABLE_NAME: usize = 255;
/// The most variables of a workspace.
pub const MAX_VARIABLES: usize = 256;
/// The longest URL of a repository.
pub const MAX_URL: usize = 2048;
/// The longest name of a branch, tag or remote.
pub const MAX_REF: usize = 255;

/// The most entries of one directory listing.
pub const MAX_ENTRIES: usize = 10_000;
/// The most files that one search by name returns.
pub const MAX_FOUND: u64 = 10_000;
/// The most matches that one search by content returns.
pub const MAX_MATCHES: u64 = 5000;
/// The most lines of context around a match.
pub const MAX_CONTEXT: u8 = 10;
/// The most changes that one comparison lists.
pub const MAX_CHANGES: usize = 100_000;
/// The most lines of a log.
pub const MAX_LOG_LINES: u32 = 10_000;
/// The most events of one page of the timeline.
pub const MAX_EVENTS: u32 = 1000;
/// The most forks of one call.
pub const MAX_FORKS: u32 = 100;
/// The most entries of a list of network rules.
pub const MAX_RULES: u64 = 1024;
/// The most entries of the network log in one result.
pub const MAX_NETWORK_ENTRIES: u32 = 1000;
/// The lowest port of the host that may be forwarded.
pub const MIN_HOST_PORT: u16 = 1024;
/// The highest number of a signal.
pub const MAX_SIGNAL: i32 = 64;

/// The name of the present state of a workspace, among the names of its snapshots.
pub const NOW: &str = "now";

/// Declares a form: a name for a schema that several parameters share.
macro_rules! form {
    (#[doc = $doc:literal] $form:ident { $($schema:tt)+ }) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $form;

        impl JsonSchema for $form {
            fn schema_name() -> Cow<'static, str> {
                stringify!($form).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $doc.trim_ascii(), $($schema)+ })
            }
        }
    };
}

form! {
    /// A workspace, by its id, the beginning of its short id, or its name.
    WorkspaceReference { "type": "string", "minLength": 1, "examples": ["web"] }
}

form! {
    /// A request for approval, by its id or, for the operator, the beginning of its id.
    ApprovalReference { "type": "string", "pattern": "^[0-9a-fA-F-]{6,36}$", "examples": ["1b4e28ba"] }
}

form! {
    /// A domain name, or `*.` and a name for everything below it.
    DomainPatternText {
        "type": "string",
        "pattern": r"^(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*$",
        "not": { "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$" },
        "maxLength": 253,
        "examples": ["*.example.com"],
    }
}

form! {
    /// An IPv4 address or range.
    AddressRange {
        "type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}(/[0-9]{1,2})?$", "examples": ["10.1.0.0/16"],
    }
}

form! {
    /// A group of workspaces.
    GroupName { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$", "examples": ["blue"] }
}

form! {
    /// A preset of the configuration.
    PresetName { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$", "examples": ["packages"] }
}

form! {
    /// A path from the root.
    AbsolutePath {
        "type": "string", "pattern": r"^/[^\x00]*$", "maxLength": MAX_PATH, "examples": ["/workspace/file.txt"],
    }
}

form! {
    /// A command line for the shell: not blank.
    CommandLine {
        "type": "string", "pattern": r"^[^\x00]*[^\x00\s][^\x00]*$", "maxLength": MAX_COMMAND, "examples": ["ls -l"],
    }
}

form! {
    /// A user of a workspace: a name, or `UID[:GID]`.
    UserReference {
        "type": "string", "pattern": "^([^:]+|[0-9]{1,9}:[0-9]{1,9})$", "examples": ["1000:1000"],
    }
}

form! {
    /// Permission bits in octal.
    FileMode { "type": "string", "pattern": "^(0o)?0*[0-7]{1,4}$", "examples": ["0644"] }
}

form! {
    /// A pattern of a search.
    SearchPattern { "type": "string", "minLength": 1, "maxLength": MAX_PATTERN }
}

form! {
    /// A pattern of file names, relative to a directory.
    GlobPattern {
        "type": "string", "pattern": "^[^/]", "maxLength": MAX_PATTERN, "examples": ["**/*.rs"],
    }
}

form! {
    /// The address of a git repository: https, http, git or ssh, or `user@host:path`.
    RepositoryUrl {
        "type": "string",
        "pattern": concat!(
            r#"^((https|http|git|ssh)://[^\s\x00-\x1f\x7f-\x9f;|&$`'"\\<>-][^\s\x00-\x1f\x7f-\x9f;|&$`'"\\<>]*"#,
            r#"|[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9._-]*:[A-Za-z0-9._~/-]*)$"#,
        ),
        "maxLength": MAX_URL,
        "examples": ["https://example.com/team/app.git"],
    }
}

form! {
    /// The name of a git branch, tag or remote.
    GitName {
        "type": "string",
        "pattern": "^[A-Za-z0-9_][A-Za-z0-9_/.@=,%-]*$",
        "not": { "pattern": r"(\.\.|//|@\{|\.lock$|[/.]$)" },
        "maxLength": MAX_REF,
        "examples": ["main"],
    }
}

form! {
    /// The message of a commit: not blank.
    CommitMessage { "type": "string", "pattern": r"^[^\x00]*[^\x00\s][^\x00]*$", "examples": ["Fix the parser"] }
}

form! {
    /// An idempotency key.
    IdempotencyKey {
        "type": "string", "minLength": 1, "maxLength": MAX_KEY, "examples": ["build-42"], "writeOnly": true,
    }
}

form! {
    /// A reference to an image in a registry.
    RegistryReference {
        "type": "string", "minLength": 1, "maxLength": 1024, "examples": ["docker.io/library/python:3.13-slim"],
    }
}

form! {
    /// Environment variables: names and values.
    Variables {
        "type": "object",
        "propertyNames": variable_name(),
        "additionalProperties": { "type": "string", "pattern": r"^[^\x00]*$" },
        "examples": [{"DEBUG": "1"}],
        "writeOnly": true,
    }
}

form! {
    /// Environment variables to set, or to remove if their value is null.
    VariableChanges {
        "type": "object",
        "propertyNames": variable_name(),
        "additionalProperties": { "type": ["string", "null"], "pattern": r"^[^\x00]*$" },
        "maxProperties": MAX_VARIABLES,
        "examples": [{"API_KEY": "value"}],
        "writeOnly": true,
    }
}

/// Names that `agentiso_proto::check_name` accepts. Some variables change which program or library runs.
fn variable_name() -> serde_json::Value {
    serde_json::json!({
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        "not": { "pattern": "^(PATH|IFS|ENV|BASH_ENV|LD_.*)$" },
        "maxLength": MAX_VARIABLE_NAME,
    })
}

/// A name prefix of forks: `PREFIX-1` to `PREFIX-100` are names of workspaces.
#[derive(Clone, Copy, Debug)]
pub struct NamePrefix;

impl JsonSchema for NamePrefix {
    fn schema_name() -> Cow<'static, str> {
        "NamePrefix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = WorkspaceName::json_schema(generator);
        schema.insert("maxLength".to_owned(), (WorkspaceName::MAX - "-100".len()).into());
        schema.insert("examples".to_owned(), serde_json::json!(["worker"]));
        schema
    }
}

/// The name of a snapshot that a user takes: any but `now`, which means the present state.
#[derive(Clone, Copy, Debug)]
pub struct NewSnapshotName;

impl JsonSchema for NewSnapshotName {
    fn schema_name() -> Cow<'static, str> {
        "NewSnapshotName".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = SnapshotName::json_schema(generator);
        schema.insert("not".to_owned(), serde_json::json!({ "pattern": format!(r"(\.\.|^{NOW}$)") }));
        schema
    }
}
