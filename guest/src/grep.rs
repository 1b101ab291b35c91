//! Searches files for lines that match a pattern. The size of the pattern and of the response is bounded.

use agentiso_proto::{Grep, GrepMatch, GrepSummary, MAX_CONTEXT, MAX_FOUND, MAX_PATTERN, Response};
use regex_automata::{meta::Regex, util::syntax};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use crate::{
    error::{During, Outcome, invalid, shown},
    frames::Scratch,
    glob::Glob,
    grep_file::{self, Content},
    paths::{checked, file_type},
    stream::Stream,
    walk::{self, Walk},
};

/// Limit on the memory of a compiled pattern and of its lazy DFA. Larger patterns could take minutes for one line.
const MAX_COMPILED: usize = 1024 * 1024;
/// Total bytes sent per request.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// A batch is sent at this many bytes.
const BATCH: usize = 64 * 1024;
/// A match that would make a batch longer than this starts a new batch. Still fits in a frame.
const LONGEST_BATCH: usize = 240 * 1024;

/// Sends the matching lines, up to the limits in the request.
pub(crate) fn grep(stream: &Stream, request: &Grep, scratch: &mut Scratch) -> Outcome<Response> {
    if request.context > MAX_CONTEXT {
        return Err(invalid(format!("`context` is at most {MAX_CONTEXT} lines")));
    }
    let regex = compile(request)?;
    let glob = request.glob.as_deref().map(Glob::new).transpose()?;
    let by_name = request.glob.as_deref().is_some_and(|glob| !glob.contains('/'));
    let leading = glob.as_ref().filter(|_| !by_name);
    let left = request.max_matches.min(MAX_FOUND);
    let mut results =
        Results { stream, batch: Vec::new(), bytes: 0, room: MAX_ANSWER, left, truncated: false };
    let mut summary = GrepSummary::default();
    let mut search = |file, path: &[u8], results: &mut Results<'_>| {
        match grep_file::search(stream, file, path, &regex, request, results, scratch.data.space())? {
            Content::Text => summary.files_searched += 1,
            Content::TooLarge => summary.files_too_large += 1,
            Content::Other => {}
        }
        Ok(())
    };
    let is_file = rustix::fs::statat(CWD, checked(&request.root)?, AtFlags::empty())
        .during(|| format!("examining {}", shown(&request.root)))
        .map(|stat| file_type(&stat) == FileType::RegularFile)?;
    if is_file {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(&*request.root, flags, Mode::empty())
            .during(|| format!("opening {}", shown(&request.root)))?;
        search(file, b"", &mut results)?;
    } else {
        let mut walk = Walk::start(stream, &request.root, request.hidden, leading)?;
        while !results.truncated
            && let Some(visited) = walk.next()?
        {
            let compared = if by_name { &visited.name } else { &visited.path };
            if visited.kind != FileType::RegularFile
                || glob.as_ref().is_some_and(|glob| !glob.matches(compared))
            {
                continue;
            }
            let file = walk::open(&visited.directory, &visited.name, OFlags::empty(), &visited.path)?;
            if let Some(file) = file {
                search(file, &visited.path, &mut results)?;
            }
        }
        results.truncated |= walk.is_truncated();
    }
    results.flush()?;
    summary.truncated = results.truncated;
    Ok(Response::GrepDone(summary))
}

fn compile(request: &Grep) -> Outcome<Regex> {
    if request.pattern.len() > MAX_PATTERN {
        return Err(invalid(format!("the pattern is longer than {MAX_PATTERN} bytes")));
    }
    let pattern = if request.fixed { escaped(&request.pattern) } else { request.pattern.clone() };
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(MAX_COMPILED))
        .hybrid_cache_capacity(MAX_COMPILED);
    let syntax = syntax::Config::new().utf8(false).case_insensitive(request.ignore_case);
    Regex::builder().configure(config).syntax(syntax).build(&pattern).map_err(|error| {
        let reason = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        invalid(format!("invalid pattern: {reason}"))
    })
}

/// Escapes plain text. `<` and `>` stay unescaped because `\<` and `\>` are word boundaries.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Collects matches into batches and sends them.
pub(crate) struct Results<'a> {
    stream: &'a Stream,
    batch: Vec<GrepMatch>,
    bytes: usize,
    room: usize,
    left: u32,
    truncated: bool,
}

impl Results<'_> {
    /// Counts one more match. Returns false once the limit is reached.
    pub(crate) fn admit(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.truncated = true,
        }
        !self.truncated
    }

    /// Sends a match that was admitted. Returns false if the response is full.
    pub(crate) fn send(&mut self, found: GrepMatch) -> Outcome<bool> {
        let lines = found.before.iter().chain(&found.after).chain([&found.line]);
        let cost = found.path.len() + lines.map(|line| line.len() + size_of::<Vec<u8>>()).sum::<usize>();
        match self.room.checked_sub(cost) {
            Some(room) => self.room = room,
            None => {
                (self.room, self.truncated) = (0, true);
                return Ok(false);
            }
        }
        if self.bytes + cost > LONGEST_BATCH {
            self.flush()?;
        }
        self.bytes += cost;
        self.batch.push(found);
        if self.bytes >= BATCH {
            self.flush()?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Outcome<()> {
        self.bytes = 0;
        match std::mem::take(&mut self.batch) {
            batch if batch.is_empty() => Ok(()),
            batch => self.stream.respond(&Response::Matches(batch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_text_matches_literally(text in "\\PC{1,12}", other in "\\PC{0,12}") {
            let request = Grep { pattern: text.clone(), fixed: true, ..Grep::default() };
            let regex = compile(&request).unwrap();
            let around = format!("a{text}b");
            prop_assert!(regex.is_match(&around));
            prop_assert_eq!(regex.is_match(&other), other.contains(&text));
        }

        #[test]
        fn compiling_never_panics(pattern in "[a(){}\\[\\]*+?|^$.\\\\bwdpu0-9,:<>-]{0,30}", ignore_case: bool) {
            let _ = compile(&Grep { pattern, ignore_case, ..Grep::default() });
        }
    }
}
