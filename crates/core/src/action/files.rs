//! Files in a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};

/// Reads a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileRead {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// First byte; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes to read; 1048576 if absent, at most 16777216.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Most bytes of content returned: of a longer file, the beginning and the end. 30000 for MCP tools if neither this
    /// nor limit is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// First line to read, from 1, instead of an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_line: Option<u64>,
    /// Last line to read, itself included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u64>,
    /// `text`, the default, which refuses what is not UTF-8, or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}
action!(FileRead -> FileContent, "file_read", "Read a file", Reads, Default, idempotent: true;
    "Reads a file, or a part of it by bytes or by lines. Text only, unless encoding is base64. Of a file longer than \
     max_output_bytes the beginning and the end are returned; left_out says which part is missing, to be read with \
     offset and limit. truncated says whether anything is missing.");

/// What is in a file.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileContent {
    /// The path.
    pub path: String,
    /// What was read.
    pub content: String,
    /// `text` or `base64`.
    pub encoding: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Where the content begins, in bytes.
    pub offset: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The line the content begins with, if lines were asked for.
    pub start_line: Option<u64>,
    /// Whether the file goes on, or a part of it is left out.
    pub truncated: bool,
    /// The part between beginning and end that content leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// A part of a file that was not returned.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has.
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
            format!("{}{dots}[{} of {} bytes; go on with offset {next}]", self.content, self.bytes, self.size)
        } else {
            self.content.clone()
        }
    }
}

/// Writes a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileWrite {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// What to write, at most 16 MiB.
    pub content: String,
    /// Permission bits in octal, `0644` or `755`; those of the file that is replaced, else 0644, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `text`, the default, or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Adds to the file instead of replacing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
}
action!(FileWrite -> FileWritten, "file_write", "Write a file", Destroys, Default, idempotent: true;
    "Writes a whole file, atomically, and replaces what was in it; use file_edit to change a part. Missing \
     directories are created.");

/// A file that was written.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileWritten {
    /// The path.
    pub path: String,
    /// Bytes that were written.
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
    /// The text to replace, exactly.
    pub old_string: String,
    /// What to put in its place.
    pub new_string: String,
    /// Replaces every occurrence instead of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Changes nothing if the text occurs more than once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_unique: bool,
}

/// Edits a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileEdit {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// The text to replace, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_string: Option<String>,
    /// What to put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_string: Option<String>,
    /// Replaces every occurrence instead of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Changes nothing if the text occurs more than once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_unique: bool,
    /// Several replacements instead, made one after the other, all or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
}
action!(FileEdit -> FileEdited, "file_edit", "Edit a file", Destroys, Default;
    "Replaces text in a file: the first occurrence of old_string, or every one with replace_all. matches says how \
     often it occurred; with expect_unique an old_string that occurs more than once changes nothing. Several edits \
     are made in order, all or none. The text must match exactly, including white space.");

/// A file that was edited.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileEdited {
    /// The path.
    pub path: String,
    /// How many places were changed.
    pub replacements: usize,
    /// How often the text to replace occurred, all edits together.
    #[serde(default)]
    pub matches: usize,
    /// Its size now.
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
    pub workspace_id: String,
    /// Absolute path of the directory.
    pub path: String,
    /// Skips so many entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// Shows so many entries; 1000 if absent, at most 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}
action!(FileList -> FileListed, "file_list", "List a directory", Reads, Default, idempotent: true;
    "Lists a directory, sorted by name, with kind, size, permissions and time of each entry. Not recursive: \
     file_glob finds files at any depth.");

/// About a file.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileEntry {
    /// Its name, or path.
    pub name: String,
    /// `file`, `directory`, `symlink` or `other`.
    pub kind: String,
    /// Size in bytes.
    pub size: u64,
    /// `rwxr-xr-x`.
    pub permissions: String,
    /// Last change of its content.
    pub modified: String,
    /// Where a symbolic link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A directory.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileListed {
    /// The path.
    pub path: String,
    /// Its entries.
    pub entries: Vec<FileEntry>,
    /// How many there are in all.
    pub total: usize,
    /// Whether some are left out.
    pub truncated: bool,
}

impl Outcome for FileListed {
    fn text(&self) -> String {
        let line = |entry: &FileEntry| {
            let mark = match entry.kind.as_str() {
                "directory" => "/",
                "symlink" => "@",
                _ => "",
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

/// Looks at a path.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileStat {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
}
action!(FileStat -> FileStatus, "file_stat", "Look at a path", Reads, Default, idempotent: true;
    "Says what a path is: kind, size, permissions, owner, time. A symbolic link is not followed. A path that is not \
     there is an ordinary result: exists is false.");

/// What a path is.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileStatus {
    /// The path.
    pub path: String,
    /// Whether there is anything.
    pub exists: bool,
    /// About it.
    pub entry: Option<FileEntry>,
    /// Its owner's number.
    pub uid: Option<u32>,
    /// Its group's number.
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
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// Its new absolute path.
    pub new_path: String,
    /// Replaces what is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}
action!(FileMove -> FileMoved, "file_move", "Move a file", Destroys, Default;
    "Moves or renames a file or directory within one file system. What is at new_path is only replaced with \
     overwrite.");

/// A file that was moved.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileMoved {
    /// Where it was.
    pub from: String,
    /// Where it is.
    pub to: String,
}

impl Outcome for FileMoved {
    fn text(&self) -> String {
        format!("{} is now {}", self.from, self.to)
    }
}

/// Deletes a file or directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileDelete {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// Also a directory that is not empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}
action!(FileDelete -> FileDeleted, "file_delete", "Delete a file", Destroys, Default;
    "Deletes a file, a symbolic link itself, or an empty directory; with recursive a directory and all in it.");

/// What was deleted.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileDeleted {
    /// The path.
    pub path: String,
    /// Always true.
    pub deleted: bool,
}

impl Outcome for FileDeleted {
    fn text(&self) -> String {
        format!("{} deleted", self.path)
    }
}

/// Makes a directory.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileMkdir {
    /// Id or name.
    pub workspace_id: String,
    /// Absolute path.
    pub path: String,
    /// Permission bits in octal; 0755 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
action!(FileMkdir -> DirectoryMade, "file_mkdir", "Make a directory", Changes, Default, idempotent: true;
    "Makes a directory and those above it that are missing. One that is there is left as it is.");

/// A directory that is there.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DirectoryMade {
    /// The path.
    pub path: String,
}

impl Outcome for DirectoryMade {
    fn text(&self) -> String {
        format!("{} is there", self.path)
    }
}

/// Finds files by name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileGlob {
    /// Id or name.
    pub workspace_id: String,
    /// What to look for, relative to path: `**/*.rs`, `src/*.{c,h}`.
    pub pattern: String,
    /// Absolute path of the directory to look in; `/` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Shows so many; 1000 if absent, at most 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also what begins with a dot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}
action!(FileGlob -> FilesFound, "file_glob", "Find files by name", Reads, Default, idempotent: true;
    "Finds files and directories whose path matches a pattern with *, **, ?, [..] and {a,b}. Does not follow \
     symbolic links.");

/// Files that were found.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FilesFound {
    /// The files, sorted by path.
    pub files: Vec<FileEntry>,
    /// Whether some are left out.
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
    pub workspace_id: String,
    /// Regular expression, or text if fixed.
    pub pattern: String,
    /// Absolute path of a file or directory; `/` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only in files whose path matches this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Takes the pattern as plain text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
    /// Upper and lower case are the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Lines shown before and after each match, at most 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u8>,
    /// Shows so many matches; 200 if absent, at most 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also in files that begin with a dot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}
action!(FileGrep -> TextFound, "file_grep", "Find text in files", Reads, Default, idempotent: true;
    "Finds lines that match a regular expression in the files below a path. Binary files and files over 64 MiB are \
     left out.");

/// Text that was found.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TextFound {
    /// The matches.
    pub matches: Vec<TextMatch>,
    /// Files that were looked into.
    pub files_searched: u64,
    /// Whether some matches are left out.
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

/// Copies files between the host and a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileTransfer {
    /// Id or name.
    pub workspace_id: String,
    /// `upload` (host to workspace) or `download` (workspace to host).
    pub direction: String,
    /// Absolute path on the host, within the transfer directory.
    pub host_path: String,
    /// Absolute path in the workspace.
    pub guest_path: String,
}
action!(FileTransfer -> FileTransferred, "file_transfer", "Copy files to or from the host", Destroys, Default;
    "Copies a file, or a directory with all in it, between the host and a workspace, streamed, of any size. An agent \
     reaches only the host's transfer directory. A file at the destination is replaced; a \
     directory there is not.");

/// Files that were copied.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FileTransferred {
    /// `upload` or `download`.
    pub direction: String,
    /// Path on the host.
    pub host_path: String,
    /// Path in the workspace.
    pub guest_path: String,
    /// Bytes of content.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Sockets, pipes and devices, which are never copied: the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// How many of them there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_count: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Outcome for FileTransferred {
    fn text(&self) -> String {
        let (from, to) = match self.direction.as_str() {
            "upload" => (&self.host_path, &self.guest_path),
            _ => (&self.guest_path, &self.host_path),
        };
        let skipped = match self.skipped_count {
            0 => String::new(),
            count => format!("; {count} sockets, pipes or devices were left out"),
        };
        format!("{} bytes in {} files copied from {from} to {to}{skipped}", self.bytes, self.files)
    }
}
