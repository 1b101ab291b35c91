//! Files in a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{AbsolutePath, FileMode, MAX_ENTRIES, MAX_FILE_BYTES, WorkspaceReference};
use super::values::{Encoding, PathKind};
use crate::{Secret, Sensitive};

/// Content in base64, with padding and no stray bits.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// What a call that reads lines must not have: an offset, or another encoding.
fn only_text_lines() -> serde_json::Value {
    serde_json::json!({"not": {"required": ["offset"]}, "properties": {"encoding": {"const": "text"}}})
}

/// Reads a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("dependentSchemas" = {"start_line": only_text_lines(), "end_line": only_text_lines()}))]
pub struct FileRead {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// First byte; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes to read; 1048576 if absent, at most 16777216.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_FILE_BYTES))]
    pub limit: Option<u64>,
    /// Maximum bytes of content; a longer file is cut in the middle. Default: 30000 for MCP tools without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_FILE_BYTES))]
    pub max_output_bytes: Option<u64>,
    /// First line to read, from 1, instead of an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line to read, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// `text` (default; fails if the file is not UTF-8) or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}
action! { FileRead -> FileContent {
    name: "file_read",
    title: "Read a file",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/files/content"],
    tools: [Core, Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Reads a file, or part of it by bytes or lines. Text only, unless encoding is base64. A file longer \
                  than max_output_bytes is cut in the middle: truncated is true, and left_out gives the missing \
                  part, to be read with offset and limit.",
}}

/// The content of a file, or a part of it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileContent {
    /// Absolute path in the workspace.
    pub path: String,
    /// The content that was read.
    pub content: String,
    /// How content is encoded.
    pub encoding: Encoding,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Offset of content in bytes.
    pub offset: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// The number of the first line, if lines were requested.
    pub start_line: Option<u64>,
    /// Whether part of the file is missing from content.
    pub truncated: bool,
    /// The part missing from content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// A part of a file that was not returned.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LeftOut {
    /// Offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Outcome for FileContent {
    fn text(&self) -> String {
        if let Some(LeftOut { offset, bytes }) = self.left_out {
            return format!(
                "{}\n[{} of {} bytes; read the {bytes} missing ones with offset {offset} and limit, or raise \
                 max_output_bytes]",
                self.content.trim_end_matches('\n'),
                self.bytes,
                self.size
            );
        }
        if self.truncated {
            let next = self.offset + self.bytes;
            let dots = if self.content.ends_with('\n') { "" } else { "\n" };
            format!(
                "{}{dots}[{} of {} bytes; continue with offset {next}]",
                self.content, self.bytes, self.size
            )
        } else {
            self.content.clone()
        }
    }
}

/// Writes a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("if" = {"properties": {"encoding": {"const": "base64"}}, "required": ["encoding"]}, "then" = {"properties": {"content": {"pattern": BASE64}}}))]
pub struct FileWrite {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Content, at most 16 MiB.
    pub content: Secret<String>,
    /// Octal mode. Default: that of the existing file, else 0644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FileMode>")]
    pub mode: Option<String>,
    /// `text` (default) or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Append to the file instead of replacing its content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
}
action! { FileWrite -> FileWritten {
    name: "file_write",
    title: "Write a file",
    subjects: [Workspace(workspace_id)],
    routes: [Put "/v1/workspaces/{workspace_id}/files/content"],
    tools: [Core, Standard, Full],
    effect: Destroys,
    body: File,
    flags: [idempotent],
    description: "Writes a whole file atomically, replacing its content; use file_edit to change part of it. Creates \
                  missing directories.",
}}

/// A file that was written.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileWritten {
    /// Absolute path in the workspace.
    pub path: String,
    /// Number of bytes written.
    pub bytes: u64,
}

impl Outcome for FileWritten {
    fn text(&self) -> String {
        format!("{} bytes written to {}", self.bytes, self.path)
    }
}

/// One replacement.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Exact text to replace.
    #[schemars(length(min = 1))]
    pub old_string: Secret<String>,
    /// The replacement.
    pub new_string: Secret<String>,
    /// Replace every occurrence instead of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Fail if old_string occurs more than once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_unique: bool,
}

impl Sensitive for Edit {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({})
    }

    /// Its texts are secrets, which overwrite themselves.
    fn wipe(&mut self) {}
}

/// Whether there are no edits.
fn is_empty(edits: &Secret<Vec<Edit>>) -> bool {
    edits.expose().is_empty()
}

/// Edits a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["old_string", "new_string"]}, {"required": ["edits"]}], "dependentRequired" = {"old_string": ["new_string"], "new_string": ["old_string"]}))]
pub struct FileEdit {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Exact text to replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub old_string: Option<Secret<String>>,
    /// The replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_string: Option<Secret<String>>,
    /// Replace every occurrence instead of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Fail if old_string occurs more than once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_unique: bool,
    /// Several replacements, made in order, all or none.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(length(min = 1))]
    pub edits: Secret<Vec<Edit>>,
}
action! { FileEdit -> FileEdited {
    name: "file_edit",
    title: "Edit a file",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/files/edit"],
    tools: [Standard, Full],
    effect: Destroys,
    body: File,
    description: "Replaces text in a file: the first occurrence of old_string, or all with replace_all. matches is \
                  the number of occurrences; with expect_unique, more than one is an error. Several edits are made \
                  in order, all or none. Text must match exactly, including whitespace.",
}}

/// A file that was edited.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileEdited {
    /// Absolute path in the workspace.
    pub path: String,
    /// Number of replacements.
    pub replacements: usize,
    /// How often old_string occurred, in all edits together.
    #[serde(default)]
    pub matches: usize,
    /// Size of the file after the edit, in bytes.
    pub size: u64,
}

impl Outcome for FileEdited {
    fn text(&self) -> String {
        let changed = match self.replacements {
            1 => format!("1 place changed in {}", self.path),
            places => format!("{places} places changed in {}", self.path),
        };
        match self.matches.saturating_sub(self.replacements) {
            0 => changed,
            left => format!("{changed}; {left} more matches were left, use replace_all to change them too"),
        }
    }
}

/// Lists a directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileList {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path of the directory.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Number of entries to skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// Maximum number of entries, up to 10000. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_ENTRIES))]
    pub limit: Option<usize>,
}
action! { FileList -> FileListed {
    name: "file_list",
    title: "List a directory",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/files/list"],
    tools: [Core, Standard, Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists a directory, sorted by name, with kind, size, permissions and time. Not recursive; file_glob \
                  searches at any depth.",
}}

/// The metadata of a file.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileEntry {
    /// Its name in a listing, its path in a search result.
    pub name: String,
    /// Type of the entry.
    pub kind: PathKind,
    /// Size in bytes.
    pub size: u64,
    /// Permissions as `ls` shows them, such as `rwxr-xr-x`.
    pub permissions: String,
    /// Modification time.
    pub modified: String,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The entries of a directory.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileListed {
    /// Absolute path in the workspace.
    pub path: String,
    /// The entries, sorted by name.
    pub entries: Vec<FileEntry>,
    /// Number of entries in the directory.
    pub total: usize,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

impl Outcome for FileListed {
    fn text(&self) -> String {
        let line = |entry: &FileEntry| {
            let mark = match entry.kind {
                PathKind::Directory => "/",
                PathKind::Symlink => "@",
                PathKind::File | PathKind::Other => "",
            };
            let target = entry.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
            format!(
                "{} {:>10} {} {}{mark}{target}",
                entry.permissions, entry.size, entry.modified, entry.name
            )
        };
        let mut lines: Vec<String> = self.entries.iter().map(line).collect();
        if self.truncated {
            lines.push(format!("[{} of {}]", self.entries.len(), self.total));
        }
        lines.join("\n")
    }
}

/// Reads the metadata of a path.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileStat {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
}
action! { FileStat -> FileStatus {
    name: "file_stat",
    title: "Look at a path",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/files/stat"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns a path's kind, size, permissions, owner and time. Does not follow symbolic links. A \
                  missing path is a normal result with exists false.",
}}

/// The metadata of a path.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileStatus {
    /// Absolute path in the workspace.
    pub path: String,
    /// Whether the path exists.
    pub exists: bool,
    /// Its metadata; null if the path does not exist.
    pub entry: Option<FileEntry>,
    /// Numeric user id.
    pub uid: Option<u32>,
    /// Numeric group id.
    pub gid: Option<u32>,
}

impl Outcome for FileStatus {
    fn text(&self) -> String {
        match &self.entry {
            Some(entry) => {
                let target = entry.target.as_ref().map(|target| format!(", to {target}")).unwrap_or_default();
                format!(
                    "{}: {}, {} bytes, {}, modified {}{target}",
                    self.path, entry.kind, entry.size, entry.permissions, entry.modified
                )
            }
            None => format!("{} does not exist", self.path),
        }
    }
}

/// Moves a file or directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileMove {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Its new absolute path.
    #[schemars(with = "AbsolutePath")]
    pub new_path: String,
    /// Replace an existing file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}
action! { FileMove -> FileMoved {
    name: "file_move",
    title: "Move a file",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/files/move"],
    tools: [Full],
    effect: Destroys,
    description: "Moves or renames a file or directory within one file system. An existing new_path is replaced only \
                  with overwrite.",
}}

/// A file that was moved.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileMoved {
    /// Its previous path.
    pub from: String,
    /// Its new path.
    pub to: String,
}

impl Outcome for FileMoved {
    fn text(&self) -> String {
        format!("moved {} to {}", self.from, self.to)
    }
}

/// Deletes a file or directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileDelete {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Also delete a directory that is not empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}
action! { FileDelete -> FileDeleted {
    name: "file_delete",
    title: "Delete a file",
    subjects: [Workspace(workspace_id)],
    routes: [Delete "/v1/workspaces/{workspace_id}/files"],
    tools: [Standard, Full],
    effect: Destroys,
    description: "Deletes a file, a symbolic link (not its target) or an empty directory; with recursive, a \
                  directory and its contents.",
}}

/// A path that was deleted.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileDeleted {
    /// Absolute path in the workspace.
    pub path: String,
    /// Always true: a failure is an error.
    pub deleted: bool,
}

impl Outcome for FileDeleted {
    fn text(&self) -> String {
        format!("{} deleted", self.path)
    }
}

/// Creates a directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileMkdir {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path.
    #[schemars(with = "AbsolutePath")]
    pub path: String,
    /// Octal mode. Default: 0755.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FileMode>")]
    pub mode: Option<String>,
}
action! { FileMkdir -> DirectoryMade {
    name: "file_mkdir",
    title: "Make a directory",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/files/mkdir"],
    tools: [Full],
    effect: Changes,
    flags: [idempotent],
    description: "Creates a directory and its missing parents. An existing directory is left unchanged.",
}}

/// A directory that was created or existed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DirectoryMade {
    /// Absolute path in the workspace.
    pub path: String,
}

impl Outcome for DirectoryMade {
    fn text(&self) -> String {
        format!("directory {} exists", self.path)
    }
}
