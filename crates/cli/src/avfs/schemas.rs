//! The published JSON Schemas: one for each value that a command prints.

use agentiso_policy::command::PolicyExplanation;
use agentiso_proxy::envelope::Envelope;
use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use super::answer::{Answer, ErrorAnswer};
use super::{
    checkpoint, completions, files, history, host, inbox, man, policy, proxy, session, upkeep, vault,
};

/// Gives types their names, and lists them all. A type that is not in the list cannot be printed.
macro_rules! answers {
    ($($name:literal: $type:ty,)+; $($named:ty,)+) => {
        $(impl Answer for $type {
            const NAME: &'static str = $name;
        })+

        /// Every published schema with its name, which is also the name of its file in `docs/schemas`.
        pub fn all() -> Vec<(&'static str, Schema)> {
            let mut all = vec![$(($name, of::<$type>()),)+ $((<$named>::NAME, of::<$named>()),)+];
            all.sort_by_key(|(name, _)| *name);
            all
        }
    };
}

answers! {
    "aliases": completions::AliasList,
    "audit": upkeep::AuditLog,
    "audit_clear": upkeep::AuditCleared,
    "cat": files::Content,
    "checkout": history::CheckedOutFile,
    "checkpoint_delete": checkpoint::RemovedSnapshot,
    "checkpoint_list": checkpoint::Snapshots,
    "checkpoint_restore": checkpoint::RestoredSnapshot,
    "compact": upkeep::CompactDone,
    "completions": completions::Script,
    "cp": files::Copied,
    "diff": history::FileDifference,
    "diff_tree": history::ChangeList,
    "enter": host::EnteredVault,
    "error": ErrorAnswer,
    "exec": proxy::FileRan,
    "export": host::ExportedFiles,
    "find": files::FoundFiles,
    "fsck": upkeep::FsckDone,
    "gc": upkeep::Collected,
    "grep": files::Matches,
    "import": host::ImportedFiles,
    "inbox_list": inbox::Requests,
    "inbox_request": inbox::Request,
    "log": history::History,
    "ls": files::Listing,
    "maintain": upkeep::MaintainDone,
    "merge": history::Merged,
    "man": man::Pages,
    "meta": files::MetaShown,
    "meta_change": files::MetaChanged,
    "meta_import": files::MetaImported,
    "mkdir": files::Made,
    "mount": host::MountShown,
    "mount_list": host::MountList,
    "mv": files::Moved,
    "policy_check": policy::Checked,
    "policy_set": policy::VaultPolicy,
    "proxy_exec_output": proxy::OutputEvent,
    "prune": upkeep::PruneDone,
    "pwd": files::WorkingDirectory,
    "quota": vault::QuotaShown,
    "quota_change": vault::QuotaChanged,
    "revert": history::Reverted,
    "rm": files::RemovedPath,
    "search": files::Hits,
    "session": session::SessionShown,
    "session_list": session::SessionList,
    "stat": files::Details,
    "stats": upkeep::StatsShown,
    "tag": files::FileTags,
    "tag_change": files::TagChanged,
    "tag_list": files::AllTags,
    "tag_rename": files::TagRenamed,
    "tree": files::Node,
    "undo": history::UndoneChange,
    "unmount": host::Unmounted,
    "vault_config": vault::Configured,
    "vault_create": vault::Created,
    "vault_delete": vault::Removed,
    "vault_fork": vault::Forked,
    "vault_info": vault::Info,
    "vault_list": vault::Listed,
    "vault_rename": vault::Renamed,
    "vault_use": vault::Used,
    "write": files::Written,;
    checkpoint::Snapshot,
    Envelope,
    PolicyExplanation,
}

fn of<T: JsonSchema>() -> Schema {
    // What is described is what is printed: every field is there.
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
