//! `avfs diff`.

use std::ffi::OsString;

use agentiso_core::{Code, Explain, Failure};
use agentiso_vfs::{ChangeOptions, Endpoint, FileDiff, TreePath, VersionRef, diff_lines};
use clap::Args;

use super::changes::{ChangeList, show_changes};
use super::endpoint::endpoint;
use super::lines::{FileDifference, lines, unified};
use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// The largest file that is compared line by line.
const MAX_FILE: usize = 16 << 20;

/// Flags of `diff`.
#[derive(Args, Debug)]
#[command(
    after_help = "A state is now, a revision such as r17, a checkpoint, a vault, VAULT@STATE, or host:DIR. Without \
                  states, a file is compared with its version before.\n\nExamples:\n  \
                  avfs --vault work diff /README.md\n  avfs --vault work diff /README.md --v1 1 --v2 3\n  \
                  avfs --vault work diff --from before-change\n  avfs diff --from work --to task-1 /src\n  \
                  avfs diff --from work --to host:."
)]
pub struct Diff {
    /// A file, or a directory to limit the comparison to
    pub path1: Option<OsString>,
    /// Another file to compare with
    pub path2: Option<OsString>,
    /// The version of the first file
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"])]
    pub v1: Option<VersionRef>,
    /// The version of the second file, or of the same
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"])]
    pub v2: Option<VersionRef>,
    /// The state before
    #[arg(long, value_name = "STATE")]
    pub from: Option<String>,
    /// The state after [default: now]
    #[arg(long, value_name = "STATE")]
    pub to: Option<String>,
    /// Lines around changed ones
    #[arg(short = 'U', long, value_name = "N", default_value_t = 3)]
    pub context: usize,
    /// Show a unified diff; this is so anyway
    #[arg(short, hide = true)]
    pub unified: bool,
    /// Most changed files to show
    #[arg(short, long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
}

/// Compares.
pub fn diff(context: &Context, flags: Diff) -> Result<u8, Failure> {
    let first = flags.path1.as_deref().map(path).transpose()?;
    let second = flags.path2.as_deref().map(path).transpose()?;
    match (&flags.from, &flags.to, first) {
        (None, None, Some(first)) => {
            versions(context, &flags, &first, &second.unwrap_or_else(|| first.clone()))
        }
        (None, None, None) => Err(Failure::new(Code::InvalidArgument, "there is nothing to compare")
            .with_remedy("give a file, or a state with --from")),
        (_, _, first) => states(context, &flags, first, second),
    }
}

/// Compares two states: one file line by line, or all files.
fn states(
    context: &Context,
    flags: &Diff,
    first: Option<TreePath>,
    second: Option<TreePath>,
) -> Result<u8, Failure> {
    let read = |given: &Option<String>| match given {
        Some(given) => endpoint(context, given),
        None => Ok(Endpoint::now(&context.vault()?)),
    };
    let (before, after) = (read(&flags.from)?, read(&flags.to)?);
    let vaults = context.vaults()?;
    if let Some(first) = first {
        let second = second.unwrap_or_else(|| first.clone());
        if is_file(context, &before, &first)? || is_file(context, &after, &second)? {
            let found = vaults.diff_files((&before, &first), (&after, &second), flags.context)?;
            return show(context, &found, (&first, None), (&second, None));
        }
        let options = ChangeOptions { scope: first, limit: flags.limit, ..ChangeOptions::default() };
        return show_list(context, &ChangeList::from(&vaults.diff(&before, &after, &options)?));
    }
    let options = ChangeOptions { limit: flags.limit, ..ChangeOptions::default() };
    show_list(context, &ChangeList::from(&vaults.diff(&before, &after, &options)?))
}

fn is_file(context: &Context, endpoint: &Endpoint, at: &TreePath) -> Result<bool, Failure> {
    match context.vaults()?.tree_of_endpoint(endpoint)?.stat(at, true) {
        Ok(stat) => Ok(!shown::is_directory(stat.kind)),
        Err(error) if error.code() == Code::FileNotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Compares two files, or two versions of one.
fn versions(context: &Context, flags: &Diff, first: &TreePath, second: &TreePath) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let (mut v1, v2) = (flags.v1, flags.v2);
    if v1.is_none() && first == second {
        v1 = previous(context, &vault, first, v2)?;
    }
    let read = |at: &TreePath, version: Option<VersionRef>| -> Result<Vec<u8>, Failure> {
        Ok(match version {
            Some(version) => vaults.read_version(&vault, at, version, MAX_FILE)?.bytes,
            None => context.view()?.read(at, None, MAX_FILE)?.bytes,
        })
    };
    let before = match (v1, first == second) {
        // The first version has nothing before it.
        (None, true) => Vec::new(),
        (version, _) => read(first, version)?,
    };
    let found = diff_lines(&before, &read(second, v2)?, flags.context);
    show(context, &found, (first, v1), (second, v2))
}

/// The version before the one that is compared.
fn previous(
    context: &Context,
    vault: &str,
    at: &TreePath,
    of: Option<VersionRef>,
) -> Result<Option<VersionRef>, Failure> {
    let log = context.vaults()?.log(vault, at, usize::MAX)?;
    let numbers: Vec<u64> = log.iter().filter_map(|version| version.version).collect();
    let before = match of {
        None => numbers.get(1),
        Some(VersionRef::Number(number)) => numbers.iter().find(|one| **one < number),
        Some(VersionRef::Revision(revision)) => {
            let older = log.iter().filter(|version| version.revision < revision);
            return Ok(older.filter_map(|version| version.version).next().map(VersionRef::Number));
        }
    };
    Ok(before.copied().map(VersionRef::Number))
}

fn show(
    context: &Context,
    found: &FileDiff,
    (first, v1): (&TreePath, Option<VersionRef>),
    (second, v2): (&TreePath, Option<VersionRef>),
) -> Result<u8, Failure> {
    let version = |version: Option<VersionRef>| {
        version.map(|version| match version {
            VersionRef::Number(number) => number.to_string(),
            VersionRef::Revision(number) => format!("r{number}"),
        })
    };
    let difference = FileDifference {
        path1: shown::path(first),
        path2: shown::path(second),
        version1: version(v1),
        version2: version(v2),
        identical: found.is_identical,
        binary: found.is_binary,
        diff: lines(found),
    };
    context.shown.result(&difference, |out| unified(out, &difference, found))?;
    Ok(0)
}

fn show_list(context: &Context, list: &ChangeList) -> Result<u8, Failure> {
    context.shown.result(list, |out| show_changes(out, list))?;
    Ok(0)
}
