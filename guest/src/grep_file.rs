//! Searches one file in chunks, so that neither a large file nor a long line is ever in memory as a whole.

use std::{collections::VecDeque, ops::Range, os::fd::OwnedFd};

use agentiso_proto::{Grep, GrepMatch, MAX_LINE};
use regex_automata::{Input, meta::Regex};
use rustix::{fs::FileType, io::Errno};

use crate::{error::Outcome, grep::Results, paths::file_type, stream::Stream};

/// Larger files are not searched.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// A NUL byte in the first `SNIFFED` bytes marks a file as binary.
const SNIFFED: usize = 8 * 1024;
/// Longer lines are searched in pieces of this length. A match that spans two pieces is not found.
const PIECE: usize = 32 * 1024;
/// Bytes of the line kept on both sides of a piece, so that `^`, `$` and `\b` see the neighbouring character: the
/// longest encoding of one character.
const MARGIN: usize = 4;
/// Number of lines between two checks for cancellation.
const PATIENCE: u64 = 256;

/// What a file turned out to contain.
pub(crate) enum Content {
    /// Text, which was searched.
    Text,
    /// Larger than [`MAX_FILE`].
    TooLarge,
    /// Binary, or unreadable.
    Other,
}

/// Searches a file. The buffer must be much longer than a piece.
pub(crate) fn search(
    stream: &Stream,
    file: OwnedFd,
    path: &[u8],
    regex: &Regex,
    request: &Grep,
    results: &mut Results<'_>,
    buffer: &mut [u8],
) -> Outcome<Content> {
    let Ok(stat) = rustix::fs::fstat(&file) else { return Ok(Content::Other) };
    if file_type(&stat) != FileType::RegularFile {
        return Ok(Content::Other);
    }
    if stat.st_size.cast_unsigned() > MAX_FILE {
        return Ok(Content::TooLarge);
    }
    let mut pieces = Pieces { file, buffer, start: 0, end: 0, left: MAX_FILE, margin: 0, ended: false };
    if !pieces.is_text() {
        return Ok(Content::Other);
    }
    let mut matches = Matches::new(path, request, results);
    let mut line = Line { number: 1, head: Vec::new(), begun: false, matched: false };
    while let Some(piece) = pieces.next() {
        if line.number % PATIENCE == 1 || !piece.ends_line {
            stream.check()?;
        }
        line.add(pieces.buffer, &piece, regex);
        if piece.ends_line {
            if !matches.line(&line)? {
                break;
            }
            line.restart();
        }
    }
    matches.finish()?;
    Ok(Content::Text)
}

/// Splits a file into lines, or pieces of long lines.
struct Pieces<'a> {
    file: OwnedFd,
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
    /// Bytes before the start that belong to the same line.
    margin: usize,
    /// Bytes that may still be read: a file may grow while it is read.
    left: u64,
    ended: bool,
}

impl Pieces<'_> {
    /// Whether the beginning of the file looks like text.
    fn is_text(&mut self) -> bool {
        while self.end < SNIFFED && !self.ended {
            self.fill();
        }
        memchr::memchr(0, &self.buffer[..self.end.min(SNIFFED)]).is_none()
    }

    fn next(&mut self) -> Option<Piece> {
        loop {
            let (start, before) = (self.start, self.margin);
            let reach = start..self.end.min(start + PIECE);
            let newline = memchr::memchr(b'\n', &self.buffer[reach.clone()]);
            let (end, after, ends_line) = match newline {
                Some(at) => (start + at, 0, true),
                None if self.ended && start == self.end => return None,
                None if self.ended && reach.end == self.end => (self.end, 0, true),
                None if self.ended || self.end >= reach.end + MARGIN => {
                    // The piece ends at the margin, unless the line ends before it.
                    let margin = reach.end..self.end.min(reach.end + MARGIN);
                    let after = memchr::memchr(b'\n', &self.buffer[margin.clone()]).unwrap_or(margin.len());
                    (reach.end, after, false)
                }
                None => {
                    self.make_space();
                    self.fill();
                    continue;
                }
            };
            self.start = end + usize::from(newline.is_some());
            self.margin = if ends_line { 0 } else { MARGIN };
            return Some(Piece { whole: start - before..end + after, searched: start..end, ends_line });
        }
    }

    fn make_space(&mut self) {
        let kept = self.start - self.margin;
        self.buffer.copy_within(kept..self.end, 0);
        (self.start, self.end) = (self.margin, self.end - kept);
    }

    /// Reads more data. A read error is treated as the end of the file.
    fn fill(&mut self) {
        let space = &mut self.buffer[self.end..];
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX).min(space.len());
        match rustix::io::read(&self.file, &mut space[..limit]) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                self.end += count;
                self.left -= count as u64;
            }
            Err(Errno::INTR) => {}
            Err(_) => self.ended = true,
        }
    }
}

/// The position of a line, or of a piece of one, in the buffer.
struct Piece {
    /// Including the margins.
    whole: Range<usize>,
    searched: Range<usize>,
    ends_line: bool,
}

/// The line being read.
struct Line {
    number: u64,
    head: Vec<u8>,
    begun: bool,
    matched: bool,
}

impl Line {
    fn add(&mut self, buffer: &[u8], piece: &Piece, regex: &Regex) {
        let Range { start, end } = piece.searched;
        if !std::mem::replace(&mut self.begun, true) {
            self.head.extend_from_slice(&buffer[start..end.min(start + MAX_LINE)]);
        }
        let whole = &buffer[piece.whole.clone()];
        let searched = start - piece.whole.start..end - piece.whole.start;
        self.matched = self.matched || regex.is_match(Input::new(whole).span(searched));
    }

    fn restart(&mut self) {
        self.number += 1;
        self.head.clear();
        (self.begun, self.matched) = (false, false);
    }
}

/// The matches of one file that still wait for the context lines after them.
struct Matches<'a, 'b> {
    path: &'a [u8],
    context: usize,
    left: u32,
    results: &'a mut Results<'b>,
    before: VecDeque<Vec<u8>>,
    waiting: VecDeque<GrepMatch>,
}

impl<'a, 'b> Matches<'a, 'b> {
    fn new(path: &'a [u8], request: &Grep, results: &'a mut Results<'b>) -> Self {
        let (context, left) = (usize::from(request.context), request.max_per_file.unwrap_or(u32::MAX));
        Self { path, context, left, results, before: VecDeque::new(), waiting: VecDeque::new() }
    }

    /// Processes a line. Returns false once the file needs no further search.
    fn line(&mut self, line: &Line) -> Outcome<bool> {
        for waiting in &mut self.waiting {
            waiting.after.push(line.head.clone());
        }
        if line.matched && self.left > 0 {
            if !self.results.admit() {
                return Ok(false);
            }
            self.left -= 1;
            self.waiting.push_back(GrepMatch {
                path: self.path.to_vec(),
                line_number: line.number,
                line: line.head.clone(),
                before: self.before.iter().cloned().collect(),
                after: Vec::new(),
            });
        }
        while self.waiting.front().is_some_and(|found| found.after.len() == self.context) {
            let Some(found) = self.waiting.pop_front() else { break };
            if !self.results.send(found)? {
                self.waiting.clear();
                return Ok(false);
            }
        }
        if self.context > 0 {
            self.before.push_back(line.head.clone());
            if self.before.len() > self.context {
                self.before.pop_front();
            }
        }
        Ok(self.left > 0 || !self.waiting.is_empty())
    }

    /// Sends the matches that were still waiting for context.
    fn finish(self) -> Outcome<()> {
        for found in self.waiting {
            if !self.results.send(found)? {
                break;
            }
        }
        Ok(())
    }
}
