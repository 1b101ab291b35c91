//! `avfs write`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt;

use agentiso_core::{Code, Failure};
use agentiso_vfs::{FileOp, NewContent, TreePath};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;
use crate::ui::counted;

/// Content up to this size is stored with the change; larger content first.
const SMALL: usize = 1 << 20;

/// Flags of `write`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs --vault work write /notes.txt 'first line'\n  \
                  generate | avfs --vault work write /data/report.csv --parents")]
pub struct Write {
    /// The file
    pub path: OsString,
    /// Its content [default: standard input]
    #[arg(conflicts_with = "stdin")]
    pub content: Option<OsString>,
    /// Read the content from standard input
    #[arg(long)]
    pub stdin: bool,
    /// Append instead
    #[arg(short, long)]
    pub append: bool,
    /// Make missing directories above it
    #[arg(short, long)]
    pub parents: bool,
    /// Its permissions in octal digits [default: those it has, or 644]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub mode: Option<u16>,
    /// Refuse to replace a file
    #[arg(long, conflicts_with = "append")]
    pub no_replace: bool,
}

/// A file that was written.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Written {
    path: String,
    /// Its size in bytes now.
    size: u64,
    /// Whether the content was appended.
    appended: bool,
    /// The number of the change, or of the last one if nothing changed.
    revision: u64,
}

/// Writes a file.
pub fn write(context: &Context, flags: Write) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    let content = content(context, flags.content.as_deref())?;
    let op = match flags.append {
        true => FileOp::Append { path: at.clone(), content },
        false => FileOp::Write { path: at.clone(), content, mode: flags.mode, if_absent: flags.no_replace },
    };
    put(context, &at, op, flags.parents, flags.append)
}

/// Performs the change and reports the file.
pub(super) fn put(
    context: &Context,
    at: &TreePath,
    op: FileOp,
    parents: bool,
    appended: bool,
) -> Result<u8, Failure> {
    let mut ops = Vec::new();
    if let Some((directory, _)) = at.split()
        && parents
        && !directory.is_root()
    {
        ops.push(FileOp::MakeDirectory { path: directory, parents: true, mode: None });
    }
    ops.push(op);
    let changed = context.vaults()?.change(&context.vault()?, &ops)?;
    let size = context.view()?.stat(at, true)?.size;
    let written = Written { path: shown::path(at), size, appended, revision: changed.revision };
    context.shown.result(&written, |out| {
        writeln!(
            out,
            "{} {} ({})",
            if appended { "Appended to" } else { "Wrote" },
            written.path,
            counted(size, "byte")
        )
    })?;
    Ok(0)
}

/// The content: as given, or standard input.
pub(super) fn content(context: &Context, given: Option<&OsStr>) -> Result<NewContent, Failure> {
    if let Some(given) = given {
        return Ok(NewContent::Bytes(given.as_bytes().to_vec()));
    }
    let mut input = io::stdin().lock();
    let mut begin = Vec::new();
    input.by_ref().take(SMALL as u64).read_to_end(&mut begin).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not read standard input: {error}"))
    })?;
    if begin.len() < SMALL {
        return Ok(NewContent::Bytes(begin));
    }
    Ok(NewContent::Staged(context.vaults()?.stage(begin.as_slice().chain(input))?))
}

/// Reads permissions.
fn octal(given: &str) -> Result<u16, String> {
    match u16::from_str_radix(given, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("give octal digits, for example 755".to_owned()),
    }
}
