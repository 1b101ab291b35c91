//! `avfs export`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_vfs::{ExportRequest, StateRef};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::{self, human};
use crate::ui::counted;

/// Flags of `export`.
#[derive(Args, Debug)]
#[command(after_help = "The destination appears when it is complete.\n\nExamples:\n  \
                  avfs --vault task-1 export / ./result\n  avfs --vault work export /src - --tar | tar t\n  \
                  avfs --vault work export --git main / ~/repo")]
pub struct Export {
    /// A directory or file of the vault
    pub vfs: OsString,
    /// Where to put it on the host; with --tar - is standard output; with --git a repository
    pub real: PathBuf,
    /// Directories too; this is so anyway
    #[arg(short, long, hide = true)]
    pub recursive: bool,
    /// How many levels of directories to export
    #[arg(long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// Replace files that exist, one by one
    #[arg(long)]
    pub overwrite: bool,
    /// The state to export: a checkpoint, or a revision such as r17
    #[arg(long, value_name = "STATE", conflicts_with = "git")]
    pub at: Option<StateRef>,
    /// Write a tar archive
    #[arg(long, conflicts_with_all = ["git", "max_depth", "overwrite"])]
    pub tar: bool,
    /// Write the checkpoints as commits of a new branch
    #[arg(long, value_name = "BRANCH")]
    pub git: Option<String>,
}

/// What was exported.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ExportedFiles {
    vfs_path: String,
    real_path: String,
    files_exported: u64,
    dirs_created: u64,
    total_bytes: u64,
    /// Extended attributes that the file system did not accept.
    refused_attributes: u64,
    /// The last commit, if it was a git repository.
    commit: Option<String>,
}

/// Exports.
pub fn export(context: &Context, flags: Export) -> Result<u8, Failure> {
    let at = path(&flags.vfs)?;
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let view = vaults.view(&vault, &flags.at.unwrap_or_default())?;
    let mut exported = ExportedFiles {
        vfs_path: shown::path(&at),
        real_path: flags.real.display().to_string(),
        files_exported: 0,
        dirs_created: 0,
        total_bytes: 0,
        refused_attributes: 0,
        commit: None,
    };
    if let Some(branch) = &flags.git {
        if !at.is_root() {
            return Err(Failure::new(Code::InvalidArgument, "a git repository gets the whole vault")
                .with_remedy("give / as the path"));
        }
        let done = vaults.export_git(&vault, &flags.real, branch)?;
        exported.commit = Some(done.head);
        exported.files_exported = view.totals()?.files;
    } else if flags.tar {
        if flags.real == Path::new("-") {
            // The archive is the result.
            return Ok(vaults.export_tar(&view, &at, io::stdout().lock()).map(|()| 0)?);
        }
        let file = create(&flags.real)?;
        vaults.export_tar(&view, &at, file)?;
        let totals = view.totals()?;
        (exported.files_exported, exported.total_bytes) = (totals.files, totals.bytes);
    } else {
        let request = ExportRequest {
            overwrite: flags.overwrite,
            max_depth: flags.max_depth,
            ..ExportRequest::default()
        };
        let done = vaults.export(&view, &at, &flags.real, &request)?;
        exported.files_exported = done.totals.files;
        exported.dirs_created = done.totals.directories;
        exported.total_bytes = done.totals.bytes;
        exported.refused_attributes = done.refused_attributes;
    }
    context.shown.result(&exported, |out| {
        let (files, bytes) = (counted(exported.files_exported, "file"), human(exported.total_bytes));
        writeln!(out, "Exported {files}, {bytes} to {}", exported.real_path)
    })?;
    Ok(0)
}

fn create(file: &Path) -> Result<File, Failure> {
    File::create_new(file).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not create {}: {error}", file.display()))
            .with_remedy("give a path that does not exist")
    })
}
