//! `avfs cat`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use agentiso_core::{Code, Failure};
use agentiso_vfs::{TreePath, VersionRef};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::answer::ignore_closed_pipe;
use crate::avfs::context::{Context, path};
use crate::avfs::shown;
use crate::ui::Stream;

/// The largest file that is shown as JSON.
const MAX_JSON: usize = 64 << 20;

/// Flags of `cat`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  avfs --vault work cat /README.md\n  avfs --vault work cat -v 2 /README.md"
)]
pub struct Cat {
    /// Files
    #[arg(required = true)]
    pub paths: Vec<OsString>,
    /// A version of the file, as log shows it
    #[arg(long, short, value_name = "N", conflicts_with = "number")]
    pub version: Option<VersionRef>,
    /// Number the lines
    #[arg(short, long)]
    pub number: bool,
    /// Print bytes as they are, also to a terminal
    #[arg(long)]
    pub raw: bool,
}

/// A file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Content {
    path: String,
    /// The text. Bytes that are not UTF-8 are replaced by U+FFFD.
    content: String,
    /// `utf-8`, or `lossy` if bytes were replaced.
    encoding: String,
    /// Its size in bytes.
    size: u64,
    /// The version that was asked for.
    version: Option<String>,
}

/// Prints files.
pub fn cat(context: &Context, flags: Cat) -> Result<u8, Failure> {
    let paths: Vec<TreePath> = flags.paths.iter().map(|given| path(given)).collect::<Result<_, _>>()?;
    match (context.shown.json, &paths[..]) {
        (true, [one]) => as_json(context, &flags, one),
        (true, _) => Err(Failure::new(Code::InvalidArgument, "with --json one file can be shown at a time")),
        (false, _) => paths.iter().try_for_each(|one| as_text(context, &flags, one)).map(|()| 0),
    }
}

fn as_json(context: &Context, flags: &Cat, at: &TreePath) -> Result<u8, Failure> {
    let bytes = read(context, flags, at)?;
    let size = bytes.len() as u64;
    let (content, encoding) = match String::from_utf8(bytes) {
        Ok(text) => (text, "utf-8"),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), "lossy"),
    };
    let version = flags.version.as_ref().map(|version| match version {
        VersionRef::Number(number) => number.to_string(),
        VersionRef::Revision(number) => format!("r{number}"),
    });
    let content = Content { path: shown::path(at), content, encoding: encoding.to_owned(), size, version };
    context.shown.result(&content, |_| Ok(()))?;
    Ok(0)
}

fn as_text(context: &Context, flags: &Cat, at: &TreePath) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    if flags.version.is_none() && !flags.number && !is_terminal {
        // Of any size.
        let view = context.view()?;
        let stat = view.stat(at, true)?;
        if shown::is_directory(stat.kind) {
            return Err(is_a_directory(at));
        }
        let mut out = Stream::stdout();
        return match view.copy_out(at, &mut out) {
            Ok(_) => out.flush().or_else(ignore_closed_pipe),
            Err(error) => Err(error.into()),
        };
    }
    let bytes = read(context, flags, at)?;
    if is_terminal && !flags.raw && bytes.contains(&0) {
        return Err(Failure::new(Code::FileNotText, format!("{at} is not text"))
            .with_remedy("redirect the output to a file, or add --raw"));
    }
    let mut out = Stream::stdout();
    let print = || {
        if !flags.number {
            let out = if flags.raw { out.verbatim() } else { &mut out };
            return out.write_all(&bytes).and_then(|()| out.flush());
        }
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            write!(out, "{:>6}\t", index + 1)?;
            out.write_all(line)?;
        }
        out.flush()
    };
    let mut print = print;
    print().or_else(ignore_closed_pipe)
}

fn read(context: &Context, flags: &Cat, at: &TreePath) -> Result<Vec<u8>, Failure> {
    Ok(match flags.version {
        Some(version) => context.vaults()?.read_version(&context.vault()?, at, version, MAX_JSON)?.bytes,
        None => {
            let read = context.view()?.read(at, None, MAX_JSON)?;
            if read.stat.size > read.bytes.len() as u64 {
                return Err(Failure::new(Code::FileTooLarge, format!("{at} has {} bytes", read.stat.size))
                    .with_remedy("print it without --json, or export it"));
            }
            read.bytes
        }
    })
}

fn is_a_directory(at: &TreePath) -> Failure {
    Failure::new(Code::InvalidArgument, format!("{at} is a directory")).with_remedy("list it with avfs ls")
}
