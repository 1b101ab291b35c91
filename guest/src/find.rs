//! Finds files by path.

use agentiso_proto::{Find, FoundEntry, MAX_FOUND, Response};
use rustix::fs::AtFlags;

use crate::{error::Outcome, glob::Glob, list, stream::Stream, walk::Walk};

/// A batch is sent at this many bytes of paths or this many entries. It must fit in a frame.
const BATCH_BYTES: usize = 64 * 1024;
const BATCH_ENTRIES: usize = 1024;

/// Sends the matching entries, up to the limit in the request.
pub(crate) fn find(stream: &Stream, request: &Find) -> Outcome<Response> {
    let glob = Glob::new(&request.glob)?;
    let mut walk = Walk::start(stream, &request.root, request.hidden, Some(&glob))?;
    let mut left = request.max.min(MAX_FOUND);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut truncated = false;
    while let Some(visited) = walk.next()? {
        if !glob.matches(&visited.path) {
            continue;
        }
        if left == 0 {
            truncated = true;
            break;
        }
        let stat = rustix::fs::statat(&*visited.directory, &*visited.name, AtFlags::SYMLINK_NOFOLLOW);
        // It was removed in the meantime.
        let Ok(stat) = stat else { continue };
        let metadata = list::metadata(&stat, None);
        left -= 1;
        bytes += visited.path.len();
        batch.push(FoundEntry {
            path: visited.path,
            kind: metadata.kind,
            size: metadata.size,
            mode: metadata.mode,
            modified_ns: metadata.modified_ns,
        });
        if bytes >= BATCH_BYTES || batch.len() >= BATCH_ENTRIES {
            stream.respond(&Response::Found(std::mem::take(&mut batch)))?;
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        stream.respond(&Response::Found(batch))?;
    }
    Ok(Response::FindDone { truncated: truncated || walk.is_truncated() })
}
