//! `avfs search`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_vfs::SearchQuery;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `search`.
#[derive(Args, Debug)]
#[command(after_help = "The query has words, \"phrases\", prefix*, AND, OR and NOT.\n\nExample:\n  \
                  avfs --vault work search 'retry AND timeout'")]
pub struct Search {
    /// Words to find
    #[arg(required_unless_present = "rebuild")]
    pub query: Option<String>,
    /// Only below this directory
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: OsString,
    /// Most results
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Build the index again first
    #[arg(long)]
    pub rebuild: bool,
}

/// Files with these words, the best first.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Hits {
    query: String,
    count: usize,
    results: Vec<Hit>,
}

/// One file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Hit {
    path: String,
    /// A part of the text, with the words between `>>>>` and `<<<<`.
    snippet: String,
    rank: f64,
}

/// Finds files by words.
pub fn search(context: &Context, flags: Search) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    if flags.rebuild {
        vaults.rebuild_search()?;
    }
    let query = flags.query.unwrap_or_default();
    let results = if query.is_empty() {
        Vec::new()
    } else {
        let search = SearchQuery { query: query.clone(), path: path(&flags.path)?, limit: flags.limit };
        let found = vaults.search(&context.view()?, &search)?;
        let hit = |hit: &agentiso_vfs::SearchHit| Hit {
            path: shown::path(&hit.path),
            snippet: hit.snippet.clone(),
            rank: hit.rank,
        };
        found.hits.iter().map(hit).collect()
    };
    let hits = Hits { query, count: results.len(), results };
    context.shown.result(&hits, |out| {
        for hit in &hits.results {
            writeln!(out, "{}\n    {}", hit.path, hit.snippet.replace('\n', " "))?;
        }
        Ok(())
    })?;
    Ok(0)
}
