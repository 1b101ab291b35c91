//! What happened to an output stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened to an output stream.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CaptureReport {
    /// How many bytes the command wrote.
    pub bytes: u64,
    /// Whether the text in the envelope leaves something out.
    pub truncated: bool,
    /// How many bytes it leaves out.
    pub omitted_bytes: u64,
    /// Whether the text is exactly what was written.
    pub encoding: Encoding,
    /// The file with the output, if it is longer than the text.
    pub file: Option<String>,
    /// How many bytes that file has.
    pub file_bytes: u64,
    /// Whether that file has all of the output; without a file, whether the text does.
    pub complete: bool,
}

/// Whether the text in the envelope is exactly what was written.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Encoding {
    /// It was UTF-8, and is unchanged.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// It was not UTF-8: bytes were replaced by U+FFFD.
    #[serde(rename = "lossy")]
    Lossy,
}
