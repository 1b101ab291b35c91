//! Messages of command streams.
//!
//! ```text
//!  client: text   ExecSpec                       first, once
//!          binary input
//!          text   ExecControl                    {"eof":true} {"resize":[80,24]} {"signal":2}
//!  server: text   ExecWord                       {"progress":{..}} while a workspace is created for the command
//!          text   ExecWord                       {"started":{..}}
//!          binary a channel's byte and output    1: standard output, 2: standard error
//!          text   ExecWord                       {"taken":N} when there is room for more input, {"read":N} if the spec
//!                                                has "report_input", {"exit":{..}} or {"error":{..}} at the end
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::error::ErrorFields;
use super::progress::ProgressWord;
use super::run::RunMachine;
use crate::{AsText, Secret, Sensitive};

/// The byte before standard output.
pub const STDOUT: u8 = 1;
/// The byte before standard error.
pub const STDERR: u8 = 2;

/// How many bytes of input may be in flight. A client that sends more delays its own signals.
pub const INPUT_WINDOW: usize = 16 * INPUT_PIECE;
/// How many bytes of input one message should have at most.
pub const INPUT_PIECE: usize = 64 * 1024;

/// A command to run while a client is connected to it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExecSpec {
    /// Program and arguments; a login shell if empty.
    #[serde(default)]
    pub argv: Vec<Word>,
    /// Variables on top of the workspace's.
    #[serde(default)]
    pub env: Secret<BTreeMap<String, Word>>,
    /// Working directory.
    #[serde(default)]
    pub workdir: Option<String>,
    /// User it runs as: a name, or `UID[:GID]`.
    #[serde(default)]
    pub user: Option<String>,
    /// Runs it in a terminal with this many columns and rows.
    #[serde(default)]
    pub tty: Option<(u16, u16)>,
    /// Whether the client sends input.
    #[serde(default)]
    pub stdin: bool,
    /// Reports how much of the input the command reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub report_input: bool,
    /// Milliseconds after which it is ended.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// An argument or a value of a variable: text, or an array of bytes if it is not UTF-8.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// Text.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

impl Word {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// As text; bytes that are not UTF-8 are replaced.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl Sensitive for Word {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({ "bytes": self.as_bytes().len() })
    }

    fn wipe(&mut self) {
        match self {
            Self::Text(text) => text.zeroize(),
            Self::Bytes(bytes) => bytes.zeroize(),
        }
    }
}

impl AsText for Word {
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(_) => None,
        }
    }
}

impl From<Vec<u8>> for Word {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

/// A message of the client other than input.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecControl {
    /// There is no more input.
    Eof(bool),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// A signal for the command.
    Signal(i32),
}

/// A message of the daemon other than output.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecWord {
    /// The workspace of a `run` is being created.
    Progress(ProgressWord),
    /// The command runs.
    Started {
        /// Id of its workspace.
        workspace_id: String,
        /// Name of its workspace.
        workspace: String,
        /// Whether [`ExecWord::Read`] will be sent, if the spec asks for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reports_input: bool,
        /// The machine, if it was started for this command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<RunMachine>,
    },
    /// This many more bytes of input were passed to the command.
    Taken(usize),
    /// How many bytes of its input the command has read in all: sent when it has read the first piece, and before its
    /// end.
    Read(u64),
    /// The command ended.
    Exit(ExecExit),
    /// The command could not be run, or was lost.
    Error {
        /// The error.
        #[serde(flatten)]
        fields: ErrorFields,
        /// Set if the program itself is what could not be run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Refused>,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ExecExit {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended because of its timeout.
    pub timed_out: bool,
    /// Its resource usage.
    pub usage: ExecUsage,
}

/// The resource usage of a command.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ExecUsage {
    /// From start to exit, in microseconds.
    pub wall_us: u64,
    /// Processor time in user mode, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest size of one process, in KiB.
    pub max_rss_kib: u64,
}

/// Why a machine could not run a program.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// There is no such program.
    NotFound,
    /// It is not executable.
    NotExecutable,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn words_that_are_not_text_travel_as_they_are() {
        let spec =
            ExecSpec { argv: vec![b"echo".to_vec().into(), vec![0xff, 1].into()], ..Default::default() };
        let sent = crate::in_clear(|| serde_json::to_string(&spec).unwrap());
        assert!(sent.contains(r#"["echo",[255,1]]"#), "{sent}");
        assert_eq!(serde_json::from_str::<ExecSpec>(&sent).unwrap(), spec);
    }

    #[test]
    fn the_messages_of_a_stream_keep_their_form() {
        let usage = ExecUsage { wall_us: 1, user_us: 2, system_us: 3, max_rss_kib: 4 };
        let exit = ExecExit { code: Some(7), signal: None, timed_out: false, usage };
        let fields = ErrorFields { code: Code::GuestFailed, message: "no".to_owned(), remedy: None };
        for (word, text) in [
            (
                ExecWord::Exit(exit),
                r#"{"exit":{"code":7,"signal":null,"timed_out":false,"usage":{"wall_us":1,"user_us":2,"system_us":3,"max_rss_kib":4}}}"#,
            ),
            (ExecWord::Progress(ProgressWord::Advance { advance: 3 }), r#"{"progress":{"advance":3}}"#),
            (ExecWord::Taken(5), r#"{"taken":5}"#),
            (ExecWord::Read(6), r#"{"read":6}"#),
            (
                ExecWord::Started {
                    workspace_id: "1".to_owned(),
                    workspace: "web".to_owned(),
                    reports_input: false,
                    machine: None,
                },
                r#"{"started":{"workspace_id":"1","workspace":"web"}}"#,
            ),
            (
                ExecWord::Error { fields, refused: Some(Refused::NotFound) },
                r#"{"error":{"code":"guest_failed","message":"no","refused":"not_found"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&word).unwrap(), text);
            assert_eq!(serde_json::from_str::<ExecWord>(text).unwrap(), word);
        }
        for (control, text) in [
            (ExecControl::Eof(true), r#"{"eof":true}"#),
            (ExecControl::Resize(80, 24), r#"{"resize":[80,24]}"#),
            (ExecControl::Signal(2), r#"{"signal":2}"#),
        ] {
            assert_eq!(serde_json::to_string(&control).unwrap(), text);
        }
    }
}
