//! Reading, listing and inspecting files.

use agentiso_core::action::{
    Encoding, FileContent, FileEntry, FileList, FileListed, FileRead, FileStat, FileStatus, LeftOut, PathKind,
};
use agentiso_core::ports::link::{FileKind, Link, Metadata};
use agentiso_core::{Code, Failure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::write::{LARGEST, about_path, absolute, too_large};
use crate::act::Context;
use crate::actions::commands::bounded;
use crate::output::whole_characters;
use crate::views::shown;
use crate::{Access, Perform};

const LIMIT: u64 = 1 << 20;
const ENTRIES: usize = 1000;
const MOST_ENTRIES: usize = 10_000;

impl Perform for FileRead {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileContent, Failure> {
        absolute(&self.path)?;
        let limit = bounded("limit", self.limit, LIMIT, 0, LARGEST as u64)?;
        let most = self.max_output_bytes;
        let most =
            most.map(|most| bounded("max_output_bytes", Some(most), 0, 0, LARGEST as u64)).transpose()?;
        let binary = self.encoding == Some(Encoding::Base64);
        let guest = context.guest().await?;
        if self.start_line.is_some() || self.end_line.is_some() {
            if binary || self.offset.is_some() {
                return Err(Failure::new(Code::InvalidArgument, "lines are of text, and need no offset"));
            }
            return lines(&guest, &self, limit.min(most.unwrap_or(limit))).await;
        }
        let offset = self.offset.unwrap_or(0);
        let limit = match (most, self.limit) {
            (Some(most), None) if !binary => return ends(&guest, self.path, offset, most).await,
            // Base64 has four letters for three bytes.
            (Some(most), _) if binary => limit.min(most / 4 * 3),
            (Some(most), _) => limit.min(most),
            (None, _) => limit,
        };
        let (bytes, size) = read(&guest, &self.path, offset, limit).await?;
        let whole = if binary { bytes.len() } else { text_of(&self.path, &bytes, offset, size)? };
        let content = match binary {
            true => STANDARD.encode(&bytes),
            false => String::from_utf8_lossy(&bytes[..whole]).into_owned(),
        };
        let read = whole as u64;
        Ok(FileContent {
            path: self.path,
            content,
            encoding: if binary { Encoding::Base64 } else { Encoding::Text },
            size,
            offset,
            bytes: read,
            start_line: None,
            truncated: offset + read < size,
            left_out: None,
        })
    }
}

/// Reads the beginning and the end of a text, cut at lines where that is possible.
async fn ends(guest: &Link, path: String, offset: u64, most: u64) -> Result<FileContent, Failure> {
    let (bytes, size) = read(guest, &path, offset, most).await?;
    let whole = text_of(&path, &bytes, offset, size)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let content = |content, bytes, left_out: Option<LeftOut>| FileContent {
        path: path.clone(),
        content,
        encoding: Encoding::Text,
        size,
        offset,
        bytes,
        start_line: None,
        truncated: left_out.is_some(),
        left_out,
    };
    if offset + bytes.len() as u64 >= size {
        return Ok(content(text(&bytes), bytes.len() as u64, None));
    }
    let head = first_part(&bytes[..whole], usize::try_from(most - most / 2).unwrap_or(usize::MAX));
    let (bytes, _) = read(guest, &path, size - most / 2, most / 2).await?;
    let tail = last_part(&bytes);
    text_of(&path, tail, 0, tail.len() as u64)?;
    let missing = LeftOut {
        offset: offset + head.len() as u64,
        bytes: size - tail.len() as u64 - offset - head.len() as u64,
    };
    let newline = if head.ends_with(b"\n") { "" } else { "\n" };
    let LeftOut { offset: from, bytes: count } = missing;
    let shown = format!(
        "{}{newline}[... {count} bytes left out: read them with offset {from} ...]\n{}",
        text(head),
        text(tail)
    );
    Ok(content(shown, (head.len() + tail.len()) as u64, Some(missing)))
}

/// How much of a part may be given up to cut it at a line.
const LINE: usize = 2000;

/// At most so much of the beginning, up to the end of a line or a character.
fn first_part(bytes: &[u8], limit: usize) -> &[u8] {
    let part = &bytes[..limit.min(bytes.len())];
    match part.iter().rposition(|&byte| byte == b'\n') {
        Some(end) if part.len() - end <= LINE.min(limit / 4) => &part[..=end],
        _ => &part[..whole_characters(part)],
    }
}

/// All from the first line, or the first character, that begins within.
fn last_part(bytes: &[u8]) -> &[u8] {
    let within = LINE.min(bytes.len() / 4);
    let line = bytes.iter().take(within).position(|&byte| byte == b'\n').map(|end| end + 1);
    let character = bytes.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
    &bytes[line.unwrap_or(character)..]
}

/// How many of the bytes are whole characters. Content that is not text is refused.
fn text_of(path: &str, bytes: &[u8], offset: u64, size: u64) -> Result<usize, Failure> {
    let goes_on = offset + (bytes.len() as u64) < size;
    let whole = if goes_on { whole_characters(bytes) } else { bytes.len() };
    // An offset may be in the middle of a character; the rest of that character is skipped.
    let begin =
        if offset > 0 { bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count() } else { 0 };
    if std::str::from_utf8(&bytes[begin.min(whole)..whole]).is_err() {
        return Err(Failure::new(Code::FileNotText, format!("{path} is not text"))
            .with_remedy("read it with encoding base64, or copy it with file_transfer"));
    }
    Ok(whole)
}

/// Reads a part of a file, and says how long the whole is.
async fn read(guest: &Link, path: &str, offset: u64, limit: u64) -> Result<(Vec<u8>, u64), Failure> {
    let about = |error| about_path(error, path);
    let mut file = guest.read_file(path.as_bytes(), offset, Some(limit)).await.map_err(about)?;
    let size = file.metadata().await.map_err(about)?.size;
    let mut bytes = Vec::new();
    while let Some(piece) = file.next().await.map_err(about)? {
        if (bytes.len() + piece.len()) as u64 > limit {
            return Err(Failure::new(
                Code::ProtocolViolation,
                format!("{path}: more came than was asked for"),
            ));
        }
        bytes.extend_from_slice(&piece);
    }
    // A file of the kernel's says it is empty and is not; one may have grown meanwhile.
    let size = if bytes.is_empty() { size } else { size.max(offset + bytes.len() as u64) };
    Ok((bytes, size))
}

/// A whole file as text.
pub(super) async fn whole_text(guest: &Link, path: &str) -> Result<String, Failure> {
    let (bytes, size) = read(guest, path, 0, LARGEST as u64).await?;
    if size > LARGEST as u64 {
        return Err(too_large(path, size));
    }
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(Code::FileNotText, format!("{path} is not text"))
            .with_remedy("change it with a command in the workspace")
    })
}

/// Reads some lines. All before them is passed by, piece by piece.
async fn lines(guest: &Link, asked: &FileRead, limit: u64) -> Result<FileContent, Failure> {
    let (first, last) = (asked.start_line.unwrap_or(1), asked.end_line.unwrap_or(u64::MAX));
    if first == 0 || last < first {
        return Err(Failure::new(
            Code::InvalidArgument,
            "lines count from 1, and the last is not before the first",
        ));
    }
    let about = |error| about_path(error, &asked.path);
    let mut file = guest.read_file(asked.path.as_bytes(), 0, None).await.map_err(about)?;
    let size = file.metadata().await.map_err(about)?.size;
    let mut picked = Picked { first, last, limit, line: 1, passed: 0, bytes: Vec::new(), full: false };
    while let Some(piece) = file.next().await.map_err(about)? {
        if !picked.take(&piece) {
            break;
        }
    }
    let whole = whole_characters(&picked.bytes);
    let bytes = &picked.bytes[..whole];
    let content = std::str::from_utf8(bytes).map_err(|_| {
        Failure::new(Code::FileNotText, format!("{} is not text", asked.path))
            .with_remedy("read it with encoding base64, or copy it with file_transfer")
    })?;
    let end = picked.passed + whole as u64;
    Ok(FileContent {
        path: asked.path.clone(),
        content: content.to_owned(),
        encoding: Encoding::Text,
        size: size.max(end),
        offset: picked.passed,
        bytes: whole as u64,
        start_line: Some(first),
        truncated: end < size,
        left_out: None,
    })
}

struct Picked {
    first: u64,
    last: u64,
    limit: u64,
    line: u64,
    passed: u64,
    bytes: Vec<u8>,
    full: bool,
}

impl Picked {
    /// Takes what belongs to the lines; says whether more may.
    fn take(&mut self, piece: &[u8]) -> bool {
        for line in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.line > self.last || self.full {
                return false;
            }
            if self.line >= self.first {
                let room = usize::try_from(self.limit).unwrap_or(usize::MAX) - self.bytes.len();
                self.bytes.extend_from_slice(&line[..line.len().min(room)]);
                self.full = line.len() > room;
            } else {
                self.passed += line.len() as u64;
            }
            self.line += u64::from(line.ends_with(b"\n"));
        }
        !self.full && self.line <= self.last
    }
}

impl Perform for FileList {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileListed, Failure> {
        absolute(&self.path)?;
        let (skip, limit) = (self.offset.unwrap_or(0), self.limit.unwrap_or(ENTRIES).min(MOST_ENTRIES));
        let guest = context.guest().await?;
        let mut found =
            guest.list(self.path.as_bytes()).await.map_err(|error| about_path(error, &self.path))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let total = found.len();
        let shown = found.iter().skip(skip).take(limit);
        let entries: Vec<FileEntry> =
            shown.map(|one| entry(String::from_utf8_lossy(&one.name).into_owned(), &one.metadata)).collect();
        let truncated = skip + entries.len() < total;
        Ok(FileListed { path: self.path, entries, total, truncated })
    }
}

impl Perform for FileStat {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileStatus, Failure> {
        absolute(&self.path)?;
        let guest = context.guest().await?;
        let found = guest.stat(self.path.as_bytes(), false).await;
        match found.map_err(|error| about_path(error, &self.path)) {
            Ok(metadata) => Ok(FileStatus {
                entry: Some(entry(self.path.clone(), &metadata)),
                path: self.path,
                exists: true,
                uid: Some(metadata.uid),
                gid: Some(metadata.gid),
            }),
            Err(failure) if failure.code() == Code::FileNotFound => {
                Ok(FileStatus { path: self.path, exists: false, entry: None, uid: None, gid: None })
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A time of the machine's.
pub(super) fn moment(nanos: i64) -> String {
    Timestamp::from_nanosecond(nanos.into()).map(shown).unwrap_or_default()
}

/// A file as it is shown.
pub(super) fn entry(name: String, metadata: &Metadata) -> FileEntry {
    FileEntry {
        name,
        kind: kind(metadata.kind),
        size: metadata.size,
        permissions: permissions(metadata.mode),
        modified: moment(metadata.modified_ns),
        target: metadata.target.as_ref().map(|target| String::from_utf8_lossy(target).into_owned()),
    }
}

pub(super) fn kind(kind: FileKind) -> PathKind {
    match kind {
        FileKind::File => PathKind::File,
        FileKind::Directory => PathKind::Directory,
        FileKind::Symlink => PathKind::Symlink,
        FileKind::Other => PathKind::Other,
    }
}

/// `rwxr-xr-x`, with the special bits where `ls` has them.
pub(super) fn permissions(mode: u32) -> String {
    let mut text = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pick(text: &[u8], pieces: usize, first: u64, last: u64, limit: u64) -> (Vec<u8>, u64) {
        let mut picked = Picked { first, last, limit, line: 1, passed: 0, bytes: Vec::new(), full: false };
        for piece in text.chunks(pieces.max(1)) {
            if !picked.take(piece) {
                break;
            }
        }
        (picked.bytes, picked.passed)
    }

    #[test]
    fn permissions_look_as_ls_shows_them() {
        for (mode, text) in [
            (0o644, "rw-r--r--"),
            (0o755, "rwxr-xr-x"),
            (0o4755, "rwsr-xr-x"),
            (0o1777, "rwxrwxrwt"),
            (0o2644, "rw-r-Sr--"),
        ] {
            assert_eq!(permissions(mode), text);
        }
    }

    #[test]
    fn parts_are_cut_at_lines_or_else_at_characters() {
        let text = "0123456\n89abcdef".as_bytes();
        assert_eq!(first_part(text, 9), b"0123456\n");
        assert_eq!(first_part(text, 16), text);
        assert_eq!(first_part(b"0123456789", 4), b"0123");
        assert_eq!(first_part("aää".as_bytes(), 4), "aä".as_bytes());
        assert_eq!(last_part(b"6\n89abcdef"), b"89abcdef");
        assert_eq!(last_part(b"0123456\n"), b"0123456\n");
        assert_eq!(last_part(&"äbcdefgh".as_bytes()[1..]), b"bcdefgh");
    }

    #[test]
    fn binary_content_is_no_text_and_a_cut_character_is_left_for_later() {
        assert_eq!(text_of("/f", b"\xff\xfe", 0, 2).unwrap_err().code(), Code::FileNotText);
        assert_eq!(text_of("/f", &"aä".as_bytes()[..2], 0, 3).unwrap(), 1);
        assert_eq!(text_of("/f", &"ä!".as_bytes()[1..], 1, 3).unwrap(), 2);
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_file_comes(
            text in "[a\n]{0,60}", pieces in 1usize..9, first in 1u64..8, more in 0u64..8,
        ) {
            let last = first + more;
            let expected: String = text.split_inclusive('\n')
                .skip(first as usize - 1).take(more as usize + 1).collect();
            let (bytes, passed) = pick(text.as_bytes(), pieces, first, last, 1000);
            prop_assert_eq!(&bytes, expected.as_bytes());
            let before: usize = text.split_inclusive('\n').take(first as usize - 1).map(str::len).sum();
            prop_assert_eq!(passed, before as u64);
        }

        #[test]
        fn no_more_than_the_limit_is_kept(text in "[a\n]{0,60}", pieces in 1usize..9, limit in 0u64..20) {
            prop_assert!(pick(text.as_bytes(), pieces, 1, u64::MAX, limit).0.len() as u64 <= limit);
        }
    }
}
