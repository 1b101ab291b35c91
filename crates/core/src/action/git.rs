//! Git in a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{
    AbsolutePath, CommitMessage, GitName, MAX_DIFF_BYTES, MAX_GIT_SECS, RepositoryUrl, WorkspaceReference,
};
use super::values::CommitStatus;

/// Clones a repository.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GitClone {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// The repository: https, http, git or ssh, or `user@host:path`.
    #[schemars(with = "RepositoryUrl")]
    pub url: String,
    /// Absolute path to clone to; `/workspace` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Branch or tag to check out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<GitName>")]
    pub branch: Option<String>,
    /// Limit history to this many commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub depth: Option<u32>,
    /// Timeout in seconds. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_GIT_SECS))]
    pub timeout_secs: Option<u64>,
}
action! { GitClone -> GitCloned {
    name: "git_clone",
    title: "Clone a git repository",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/git/clone"],
    tools: [Standard, Full],
    effect: Changes,
    rate: Exec,
    flags: [open_world, long_running],
    description: "Clones a git repository that the workspace can reach. Credentials in the url are never shown, but \
                  set_env (GIT_ASKPASS) is safer. Fails if path exists and is not empty.",
}}

/// A repository that was cloned.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GitCloned {
    /// Always true: a failure is an error.
    pub success: bool,
    /// Absolute path of the clone.
    pub path: String,
    /// The commit that is checked out; null if the repository is empty.
    pub commit_sha: Option<String>,
    /// URL without credentials.
    pub url: String,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// The requested depth.
    pub depth: Option<u32>,
}

impl Outcome for GitCloned {
    fn text(&self) -> String {
        format!("{} cloned to {}", self.url, self.path)
    }
}

/// Shows a repository's status.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GitStatus {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path of the repository; `/workspace` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
}
action! { GitStatus -> GitState {
    name: "git_status",
    title: "Show git status",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/git/status"],
    tools: [Standard, Full],
    effect: Reads,
    rate: Exec,
    flags: [idempotent],
    description: "Returns a git repository's branch, how far it is ahead and behind, and its staged, modified, \
                  untracked and conflicting files.",
}}

/// The status of a repository.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GitState {
    /// The branch; null if none is checked out.
    pub branch: Option<String>,
    /// The commit; null if there is none yet.
    pub commit_sha: Option<String>,
    /// The upstream branch.
    pub upstream: Option<String>,
    /// Number of commits that the upstream branch does not have.
    pub ahead: u32,
    /// Number of commits of the upstream branch that this one does not have.
    pub behind: u32,
    /// Files whose changes are staged.
    pub staged: Vec<String>,
    /// Files with changes that are not staged.
    pub modified: Vec<String>,
    /// Files that git does not track.
    pub untracked: Vec<String>,
    /// Files in conflict.
    pub conflicted: Vec<String>,
    /// Whether there is anything to commit.
    pub dirty: bool,
}

impl Outcome for GitState {
    fn text(&self) -> String {
        let branch = self.branch.as_deref().unwrap_or("no branch");
        if !self.dirty {
            return format!("{branch}, clean");
        }
        let mut lines = vec![branch.to_owned()];
        for (name, files) in [
            ("staged", &self.staged),
            ("modified", &self.modified),
            ("untracked", &self.untracked),
            ("conflicted", &self.conflicted),
        ] {
            lines.extend(files.iter().map(|file| format!("{name}: {file}")));
        }
        lines.join("\n")
    }
}

/// Commits changes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("dependentRequired" = {"author_name": ["author_email"], "author_email": ["author_name"]}))]
pub struct GitCommit {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// The commit's message.
    #[schemars(with = "CommitMessage")]
    pub message: String,
    /// Absolute path of the repository; `/workspace` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Stage all changes first. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_all: Option<bool>,
    /// The author's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// The author's email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_email: Option<String>,
}
action! { GitCommit -> GitCommitted {
    name: "git_commit",
    title: "Commit to git",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/git/commit"],
    tools: [Standard, Full],
    effect: Changes,
    rate: Exec,
    description: "Commits the changes in a repository, all of them unless add_all is false. Having nothing to commit \
                  is not an error.",
}}

/// The result of a commit.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GitCommitted {
    /// Whether there is a new commit.
    pub status: CommitStatus,
    /// The commit.
    pub commit_sha: Option<String>,
    /// The abbreviated commit.
    pub short_sha: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// The first line of the message.
    pub summary: Option<String>,
}

impl Outcome for GitCommitted {
    fn text(&self) -> String {
        match (&self.short_sha, &self.summary) {
            (Some(sha), Some(summary)) if self.status == CommitStatus::Committed => {
                format!("{sha} {summary}")
            }
            _ => "nothing to commit".to_owned(),
        }
    }
}

/// Pushes a branch.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GitPush {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path of the repository; `/workspace` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Remote. Default: `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<GitName>")]
    pub remote: Option<String>,
    /// Branch. Default: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<GitName>")]
    pub branch: Option<String>,
    /// Push with --force-with-lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Set the remote's branch as the upstream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_upstream: bool,
    /// Timeout in seconds. Default: 120.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_GIT_SECS))]
    pub timeout_secs: Option<u64>,
}
action! { GitPush -> GitPushed {
    name: "git_push",
    title: "Push to a git remote",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/git/push"],
    tools: [Standard, Full],
    effect: Destroys,
    rate: Exec,
    flags: [open_world],
    description: "Pushes a branch to a remote that the workspace can reach. force uses --force-with-lease.",
}}

/// The result of a push.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GitPushed {
    /// The remote.
    pub remote: String,
    /// The branch.
    pub branch: String,
    /// Always true: a failure is an error.
    pub success: bool,
    /// The output of git, without credentials.
    pub output: String,
}

impl Outcome for GitPushed {
    fn text(&self) -> String {
        format!("{} pushed to {}", self.branch, self.remote)
    }
}

/// Shows changes in a repository.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GitDiff {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Absolute path of the repository; `/workspace` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub path: Option<String>,
    /// Show staged changes instead of unstaged ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// Return a summary per file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stat: bool,
    /// Only this file or directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    /// Bytes shown, first and last halves; 65536 if absent, at most 4194304.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_DIFF_BYTES))]
    pub max_bytes: Option<u64>,
}
action! { GitDiff -> GitDiffed {
    name: "git_diff",
    title: "Show git diff",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/git/diff"],
    tools: [Standard, Full],
    effect: Reads,
    rate: Exec,
    flags: [idempotent],
    description: "Returns the changes in a repository as a unified diff or, with stat, a summary per file.",
}}

/// Changes in a repository.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct GitDiffed {
    /// The diff, or the summary if stat was set.
    pub diff: String,
    /// Whether it was truncated.
    pub truncated: bool,
    /// The summary, if stat was set.
    pub stat: Option<String>,
}

impl Outcome for GitDiffed {
    fn text(&self) -> String {
        if self.diff.is_empty() { "no changes".to_owned() } else { self.diff.clone() }
    }
}
