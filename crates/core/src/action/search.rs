//! Searching the files of a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::files::FileEntry;
use super::forms::{
    AbsolutePath, GlobPattern, MAX_CONTEXT, MAX_FOUND, MAX_MATCHES, SearchPattern, WorkspaceReference,
};

/// Finds files by name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileGlob {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Pattern relative to path: `**/*.rs`, `src/*.{c,h}`.
    #[schemars(with = "GlobPattern")]
    pub pattern: String,
    /// Absolute path of the directory to look in; `/` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Maximum number, up to 10000. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_FOUND))]
    pub max_results: Option<u32>,
    /// Include names that begin with a dot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}
action! { FileGlob -> FilesFound {
    name: "file_glob",
    title: "Find files by name",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/files/glob"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Finds files and directories whose path matches a pattern with *, **, ?, [..] and {a,b}. Does not \
                  follow symbolic links.",
}}

/// The result of a search by name.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FilesFound {
    /// The files, sorted by path.
    pub files: Vec<FileEntry>,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

impl Outcome for FilesFound {
    fn text(&self) -> String {
        let mut lines: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        if self.truncated {
            lines.push("[there are more]");
        }
        if lines.is_empty() { "nothing found".to_owned() } else { lines.join("\n") }
    }
}

/// Finds text in files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileGrep {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Regular expression, or text if fixed.
    #[schemars(with = "SearchPattern")]
    pub pattern: String,
    /// Absolute path of a file or directory; `/` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Only in files that match this glob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Treat the pattern as plain text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
    /// Ignore case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Context lines around each match, at most 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_CONTEXT))]
    pub context: Option<u8>,
    /// Maximum number of matches, up to 5000. Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MATCHES))]
    pub max_results: Option<u32>,
    /// Search files whose names begin with a dot, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}
action! { FileGrep -> TextFound {
    name: "file_grep",
    title: "Find text in files",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/files/grep"],
    tools: [Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Finds lines that match a regular expression in the files below a path. Skips binary files and \
                  files over 64 MiB.",
}}

/// The result of a search by content.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TextFound {
    /// The matches, sorted by path and line.
    pub matches: Vec<TextMatch>,
    /// Number of files searched.
    pub files_searched: u64,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

/// A line that matches.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TextMatch {
    /// The file.
    pub path: String,
    /// The line's number, from 1.
    pub line_number: u64,
    /// The line.
    pub line: String,
    /// Lines before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

impl Outcome for TextFound {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for found in &self.matches {
            for (index, before) in found.before.iter().enumerate() {
                let number = found.line_number - (found.before.len() - index) as u64;
                lines.push(format!("{}-{number}-{before}", found.path));
            }
            lines.push(format!("{}:{}:{}", found.path, found.line_number, found.line));
            for (index, after) in found.after.iter().enumerate() {
                lines.push(format!("{}-{}-{after}", found.path, found.line_number + 1 + index as u64));
            }
        }
        if self.truncated {
            lines.push("[there are more]".to_owned());
        }
        if lines.is_empty() { "nothing found".to_owned() } else { lines.join("\n") }
    }
}
