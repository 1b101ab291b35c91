//! `avfs find`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::{FindQuery, NodeKind};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `find`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs --vault work find / -n '*.rs'\n  \
                  avfs --vault work find /data --min-size 1000000 --tag raw")]
pub struct Find {
    /// Where to look
    #[arg(default_value = "/")]
    pub path: OsString,
    /// A pattern for names: `*`, `?`, `[abc]`
    #[arg(short, long, value_name = "GLOB")]
    pub name: Option<String>,
    /// The kind
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<Kind>,
    /// The smallest size in bytes
    #[arg(long, value_name = "BYTES")]
    pub min_size: Option<u64>,
    /// The largest size in bytes
    #[arg(long, value_name = "BYTES")]
    pub max_size: Option<u64>,
    /// How deep to look
    #[arg(short, long, value_name = "N")]
    pub depth: Option<usize>,
    /// Most results
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// Only files with this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Only files with this metadata
    #[arg(long, value_name = "KEY[=VALUE]")]
    pub meta: Option<String>,
}

/// A kind to find.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// Regular files
    #[value(name = "f", alias = "file")]
    File,
    /// Directories
    #[value(name = "d", alias = "directory", alias = "dir")]
    Directory,
    /// Symbolic links
    #[value(name = "l", alias = "symlink")]
    Symlink,
    /// Named pipes
    #[value(name = "p", alias = "fifo")]
    Fifo,
}

/// What was found.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FoundFiles {
    /// How many results are shown.
    count: usize,
    /// How many there are.
    total: u64,
    /// Ordered by path.
    results: Vec<FoundFile>,
}

/// One result.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FoundFile {
    path: String,
    /// `file`, `directory`, `symlink` or `fifo`.
    file_type: String,
    size: u64,
}

/// Finds files.
pub fn find(context: &Context, flags: Find) -> Result<u8, Failure> {
    let query = FindQuery {
        path: path(&flags.path)?,
        name: flags.name,
        kind: flags.kind.map(|kind| match kind {
            Kind::File => NodeKind::File,
            Kind::Directory => NodeKind::Directory,
            Kind::Symlink => NodeKind::Symlink,
            Kind::Fifo => NodeKind::Fifo,
        }),
        min_size: flags.min_size,
        max_size: flags.max_size,
        depth: flags.depth,
        limit: flags.limit,
        tag: flags.tag,
        metadata: flags.meta.map(|meta| match meta.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (meta, None),
        }),
        ..FindQuery::default()
    };
    let found = context.view()?.find(&query)?;
    let results: Vec<FoundFile> = found
        .list
        .iter()
        .map(|stat| FoundFile {
            path: shown::path(&stat.path),
            file_type: shown::kind_name(stat.kind).to_owned(),
            size: stat.size,
        })
        .collect();
    let found = FoundFiles { count: results.len(), total: found.total, results };
    context.shown.result(&found, |out| {
        found.results.iter().try_for_each(|one| writeln!(out, "{}", one.path))?;
        match found.total - found.count as u64 {
            0 => Ok(()),
            more => writeln!(out, "... and {more} more"),
        }
    })?;
    Ok(0)
}
