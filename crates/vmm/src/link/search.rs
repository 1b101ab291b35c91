//! Searching for files and lines in the guest.

use agentiso_proto::{
    Find, FoundEntry, Grep, GrepMatch, GrepSummary, MAX_CONTEXT, MAX_FOUND, MAX_LINE, Request, Response,
};

use super::calls::LISTING;
use super::stream::Event;
use super::{Found, Grepped, Guest, LinkError};

impl Guest {
    /// Finds files and directories by their paths. Dropping the future ends the search.
    pub async fn find(&self, find: Find) -> Result<Found, LinkError> {
        self.needs_version(2).await?;
        let limit = find.max.min(MAX_FOUND) as usize;
        let mut exchange = self.start(&Request::Find(find), LISTING).await?;
        let mut entries: Vec<FoundEntry> = Vec::new();
        loop {
            match exchange.next().await? {
                Event::Response(Response::Found(found)) => {
                    if entries.len() + found.len() > limit || !found.iter().all(|entry| is_below(&entry.path))
                    {
                        return Err(self.violation("files that cannot have been found"));
                    }
                    entries.extend(found);
                }
                Event::Last(Response::FindDone { truncated }) => return Ok(Found { entries, truncated }),
                other => return Err(exchange.unexpected(&other)),
            }
        }
    }

    /// Searches text files for lines. Dropping the future ends the search.
    pub async fn grep(&self, grep: Grep) -> Result<Grepped, LinkError> {
        self.needs_version(2).await?;
        let limit = grep.max_matches.min(MAX_FOUND) as usize;
        let mut exchange = self.start(&Request::Grep(grep), LISTING).await?;
        let mut matches: Vec<GrepMatch> = Vec::new();
        loop {
            match exchange.next().await? {
                Event::Response(Response::Matches(found)) => {
                    if matches.len() + found.len() > limit || !found.iter().all(is_plausible) {
                        return Err(self.violation("lines that cannot have been found"));
                    }
                    matches.extend(found);
                }
                Event::Last(Response::GrepDone(GrepSummary {
                    files_searched,
                    files_too_large,
                    truncated,
                })) => {
                    return Ok(Grepped { matches, files_searched, files_too_large, truncated });
                }
                other => return Err(exchange.unexpected(&other)),
            }
        }
    }
}

fn is_plausible(found: &GrepMatch) -> bool {
    let context = usize::from(MAX_CONTEXT);
    let mut lines = found.before.iter().chain(&found.after).chain([&found.line]);
    (found.path.is_empty() || is_below(&found.path))
        && found.before.len() <= context
        && found.after.len() <= context
        && lines.all(|line| line.len() <= MAX_LINE)
}

/// Whether a path is relative and stays below its directory. Callers append it to the directory.
fn is_below(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|&byte| byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}
