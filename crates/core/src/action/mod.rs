//! Actions and their outcomes: everything that clients can request.
//!
//! An MCP tool, a REST route and a CLI command all build the same action and receive the same outcome. Schemas are
//! generated from these types, so their doc comments are written for callers.

mod about;
mod adopt;
mod archive;
mod details;
mod exec;
mod files;
mod fork;
pub mod forms;
mod git;
mod grant;
mod images;
mod inbox;
mod network;
mod search;
mod session;
mod settings;
mod snapshots;
mod stats;
mod subject;
mod transfer;
pub(crate) mod values;
mod workspace;

use std::sync::LazyLock;

pub use about::{About, Action, Body, Effect, Listed, Method, Outcome, Rate, Route, ToolSet};
pub use adopt::*;
pub use archive::*;
pub use details::*;
pub use exec::*;
pub use files::*;
pub use fork::*;
pub use git::*;
pub use grant::*;
pub use images::*;
pub use inbox::*;
pub use network::*;
pub use search::*;
pub use session::*;
pub use settings::*;
pub use snapshots::*;
pub use stats::*;
pub use subject::Subject;
pub use transfer::*;
pub use values::*;
pub use workspace::*;

/// Calls a macro with the types of all actions, in display order. This is the only list of actions.
#[macro_export]
macro_rules! for_each_action {
    ($callback:ident) => {
        $callback! {
            WorkspaceCreate,
            WorkspaceDestroy,
            WorkspaceStart,
            WorkspaceStop,
            WorkspaceList,
            WorkspaceInfo,
            WorkspaceLogs,
            WorkspaceStats,
            WorkspaceRename,
            WorkspaceGrow,
            WorkspaceUpdate,
            WorkspaceSuspend,
            WorkspaceResume,
            WorkspaceFork,
            WorkspaceAdopt,
            WorkspaceGrant,
            WorkspaceIp,
            WorkspaceExport,
            WorkspaceImport,
            Exec,
            JobStart,
            JobPoll,
            JobKill,
            JobList,
            JobWrite,
            SetEnv,
            FileRead,
            FileWrite,
            FileEdit,
            FileList,
            FileStat,
            FileMove,
            FileDelete,
            FileMkdir,
            FileGlob,
            FileGrep,
            FileTransfer,
            SnapshotCreate,
            SnapshotRestore,
            SnapshotList,
            SnapshotDelete,
            SnapshotDiff,
            PortForward,
            PortForwardRemove,
            PortForwardList,
            NetworkPolicy,
            NetworkLog,
            InboxList,
            InboxGrant,
            InboxDeny,
            InboxApprover,
            GitClone,
            GitStatus,
            GitCommit,
            GitPush,
            GitDiff,
            ImageList,
            ImageInfo,
            ImagePull,
            ImageImport,
            ImageBuild,
            ImageCommit,
            ImageRemove,
            Timeline,
            SessionList,
            ServerStatus,
        }
    };
}

macro_rules! listed {
    ($($action:ident),* $(,)?) => { $(impl Listed for $action {})* };
}
crate::for_each_action!(listed);

macro_rules! abouts {
    ($($action:ident),* $(,)?) => { &[$($action::ABOUT),*] };
}

static ALL: &[About] = crate::for_each_action!(abouts);

/// Looks up the metadata of an action by its name.
pub fn about(name: &str) -> Option<&'static About> {
    ALL.iter().find(|about| about.name == name)
}

/// The names of all actions that only read.
pub fn reads() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
        ALL.iter().filter(|about| about.effect == Effect::Reads).map(|about| about.name).collect()
    });
    &NAMES
}
