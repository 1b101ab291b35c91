//! `avfs import`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_vfs::{ImportDone, ImportMode, ImportRequest};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::{self, human};
use crate::ui::counted;

/// Flags of `import`.
#[derive(Args, Debug)]
#[command(
    after_help = "Modes, times, symbolic links, hard links and extended attributes are kept. Nothing is imported if \
                  anything fails.\n\nExamples:\n  avfs --vault work import ~/project /\n  \
                  avfs --vault work import --git ~/repo --revision v1.0 /src\n  \
                  tar c . | avfs --vault work import --tar - /"
)]
pub struct Import {
    /// A directory or file of the host; with --tar an archive, - for standard input; with --git a repository
    pub real: PathBuf,
    /// Where to put it in the vault
    #[arg(default_value = "/")]
    pub vfs: OsString,
    /// Directories too; this is so anyway
    #[arg(short, long, hide = true)]
    pub recursive: bool,
    /// How many levels of directories to import
    #[arg(long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// What happens to a path that exists
    #[arg(long, value_enum, default_value_t = Existing::Merge)]
    pub existing: Existing,
    /// Leave out what may not be read, instead of failing
    #[arg(long)]
    pub skip_unreadable: bool,
    /// Leave out other file systems
    #[arg(long)]
    pub one_file_system: bool,
    /// Read a tar archive
    #[arg(long, conflicts_with_all = ["git", "max_depth"])]
    pub tar: bool,
    /// Read a git repository
    #[arg(long)]
    pub git: bool,
    /// The commit to read
    #[arg(long, value_name = "COMMIT", requires = "git", default_value = "HEAD")]
    pub revision: String,
}

/// What happens to a path that exists.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Existing {
    /// Both are kept; of two files with one name the imported one
    Merge,
    /// It is replaced as a whole
    Replace,
    /// Nothing is imported
    Refuse,
}

/// What was imported.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ImportedFiles {
    vfs_path: String,
    files_imported: u64,
    dirs_created: u64,
    total_bytes: u64,
    /// The commit, if it was a git repository.
    commit: Option<String>,
    /// The number of the change.
    revision: u64,
    /// Whether the vault was changed.
    changed: bool,
    /// What was left out or may be inconsistent, and why.
    notices: Vec<String>,
}

/// Imports.
pub fn import(context: &Context, flags: Import) -> Result<u8, Failure> {
    let at = path(&flags.vfs)?;
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let mode = match flags.existing {
        Existing::Merge => ImportMode::Merge,
        Existing::Replace => ImportMode::Replace,
        Existing::Refuse => ImportMode::New,
    };
    let done: ImportDone = if flags.tar {
        vaults.import_tar(&vault, archive(&flags.real)?, &at, mode)?
    } else if flags.git {
        vaults.import_git(&vault, &flags.real, &flags.revision, &at, mode)?
    } else {
        let request = ImportRequest {
            mode,
            max_depth: flags.max_depth,
            one_file_system: flags.one_file_system,
            skip_unreadable: flags.skip_unreadable,
        };
        vaults.import(&vault, &flags.real, &at, &request)?
    };
    let mut notices: Vec<String> = done.notices.iter().map(agentiso_proxy::notice).collect();
    notices.extend(done.skipped.iter().map(|path| format!("{path} was left out: a vault cannot hold it")));
    for notice in &notices {
        context.shown.note(notice);
    }
    let imported = ImportedFiles {
        vfs_path: shown::path(&at),
        files_imported: done.totals.files,
        dirs_created: done.totals.directories,
        total_bytes: done.totals.bytes,
        commit: done.commit,
        revision: done.changed.revision,
        changed: done.changed.is_changed,
        notices,
    };
    context.shown.result(&imported, |out| {
        let (files, directories) =
            (counted(imported.files_imported, "file"), counted(imported.dirs_created, "directory"));
        let bytes = human(imported.total_bytes);
        writeln!(out, "Imported {files}, {directories}, {bytes} to {}", imported.vfs_path)
    })?;
    Ok(0)
}

fn archive(file: &Path) -> Result<Box<dyn Read>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let opened = File::open(file).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not open {}: {error}", file.display()))
    })?;
    Ok(Box::new(opened))
}
