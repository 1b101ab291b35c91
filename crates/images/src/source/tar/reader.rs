//! Reading members one after another.

use std::io::{self, Read};

use tar::{EntryType, GnuExtSparseHeader, Header};

use super::members::{Member, Prelude};
use super::pax::{Pax, parse_pax};
use super::sparse::Map;

const BLOCK: u64 = 512;
/// No long name or pax header is longer: it is held in memory.
const HEADER_MAX: u64 = 2 << 20;
/// Pieces of a sparse file described in headers of the old GNU format.
const PIECES_MAX: usize = 500_000;

/// Reads an archive.
pub(crate) struct TarReader<R> {
    input: R,
    /// Stored bytes of the current member not read yet, and the padding after them.
    stored: u64,
    padding: u64,
    globals: Pax,
    marked_end: bool,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, stored: 0, padding: 0, globals: Pax::default(), marked_end: false }
    }

    /// Whether the archive said itself that it ends here; if not, it may have been cut.
    pub(crate) fn has_end_mark(&self) -> bool {
        self.marked_end
    }

    /// What is read from, to be read on after the end.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// What is read from.
    pub(crate) fn get_ref(&self) -> &R {
        &self.input
    }

    /// The next member, skipping what was not read of the last one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut prelude = Prelude { pax: self.globals.clone(), ..Prelude::default() };
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            self.begin(header.entry_size()?)?;
            match header.entry_type() {
                EntryType::GNULongName => prelude.long_name = Some(without_nul(self.small()?)),
                EntryType::GNULongLink => prelude.long_link = Some(without_nul(self.small()?)),
                EntryType::XHeader => prelude.pax.0.extend(parse_pax(&self.small()?)?),
                EntryType::XGlobalHeader => {
                    let records = parse_pax(&self.small()?)?;
                    if self.globals.0.len() + records.len() > 1000 {
                        return Err(malformed("too many global headers"));
                    }
                    self.globals.0.extend(records.iter().cloned());
                    prelude.pax.0.splice(0..0, records);
                }
                _ => return self.member(&header, prelude).map(Some),
            }
        }
    }

    /// The content of the member that `next` returned last.
    pub(crate) fn content<'a>(&'a mut self, member: &Member) -> Content<'a, R> {
        Content { reader: self, map: member.map.clone(), at: 0, size: member.size }
    }

    fn member(&mut self, header: &Header, prelude: Prelude) -> io::Result<Member> {
        let pax = prelude.pax.clone();
        let mut member = Member::new(header, prelude)?;
        if let Some(size) = pax.number("size")? {
            self.begin(size)?;
        }
        if matches!(header.entry_type(), EntryType::Link | EntryType::Symlink | EntryType::Directory) {
            // Some writers give links the size of their target, but never its bytes.
            self.begin(0)?;
        }
        if header.entry_type() == EntryType::GNUSparse {
            let gnu = header.as_gnu().ok_or_else(|| malformed("a sparse file without a GNU header"))?;
            let pieces = self.old_pieces(gnu)?;
            member.size = gnu.real_size()?;
            member.map = Map::new(pieces, member.size, self.stored)?;
        } else if pax.get("GNU.sparse.major") == Some(b"1") {
            member.size =
                pax.number("GNU.sparse.realsize")?.ok_or_else(|| malformed("a sparse file without size"))?;
            let (pieces, length) = Map::read_pieces((&mut self.input).take(self.stored))?;
            self.stored -= length;
            member.map = Map::new(pieces, member.size, self.stored)?;
        } else if let Some(pieces) = Map::pieces_of(&pax)? {
            member.size =
                pax.number("GNU.sparse.size")?.ok_or_else(|| malformed("a sparse file without size"))?;
            member.map = Map::new(pieces, member.size, self.stored)?;
        } else {
            member.size = self.stored;
            member.map = Map::whole(self.stored);
        }
        Ok(member)
    }

    fn old_pieces(&mut self, gnu: &tar::GnuHeader) -> io::Result<Vec<(u64, u64)>> {
        let mut pieces = Vec::new();
        let mut add = |found: &[tar::GnuSparseHeader]| -> io::Result<()> {
            for piece in found.iter().filter(|piece| !piece.is_empty()) {
                pieces.push((piece.offset()?, piece.length()?));
            }
            if pieces.len() > PIECES_MAX {
                return Err(malformed("a sparse file in too many pieces"));
            }
            Ok(())
        };
        add(&gnu.sparse)?;
        let mut more = gnu.is_extended();
        while more {
            let mut next = GnuExtSparseHeader::new();
            self.input.read_exact(next.as_mut_bytes())?;
            add(next.sparse())?;
            more = next.is_extended();
        }
        Ok(pieces)
    }

    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        let mut filled = 0;
        while filled < header.as_bytes().len() {
            match self.input.read(&mut header.as_mut_bytes()[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a header")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = header.as_bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            self.marked_end = true;
            return Ok(None);
        }
        let others = bytes[..148].iter().chain(&bytes[156..]).map(|byte| u32::from(*byte)).sum::<u32>();
        if header.cksum()? != others + 8 * u32::from(b' ') {
            return Err(malformed("a header does not match its checksum"));
        }
        Ok(Some(header))
    }

    fn begin(&mut self, stored: u64) -> io::Result<()> {
        if stored > i64::MAX as u64 {
            return Err(malformed("a member of impossible size"));
        }
        self.stored = stored;
        self.padding = stored.next_multiple_of(BLOCK) - stored;
        Ok(())
    }

    fn small(&mut self) -> io::Result<Vec<u8>> {
        if self.stored > HEADER_MAX {
            return Err(malformed("a header of absurd size"));
        }
        let mut bytes = Vec::new();
        (&mut self.input).take(self.stored).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != self.stored {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a header"));
        }
        self.stored = 0;
        Ok(bytes)
    }

    fn skip(&mut self) -> io::Result<()> {
        let left = self.stored + self.padding;
        let skipped = io::copy(&mut (&mut self.input).take(left), &mut io::sink())?;
        if skipped != left {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a file"));
        }
        (self.stored, self.padding) = (0, 0);
        Ok(())
    }
}

/// The content of a member, holes filled with zeroes.
pub(crate) struct Content<'a, R> {
    reader: &'a mut TarReader<R>,
    map: Map,
    at: u64,
    size: u64,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let (is_data, stretch) = self.map.stretch(self.at, self.size);
        let want = usize::try_from(stretch).unwrap_or(usize::MAX).min(buffer.len());
        let got = if is_data {
            let got = self.reader.input.read(&mut buffer[..want])?;
            self.reader.stored -= got as u64;
            got
        } else {
            buffer[..want].fill(0);
            want
        };
        self.at += got as u64;
        Ok(got)
    }
}

fn without_nul(mut name: Vec<u8>) -> Vec<u8> {
    if name.last() == Some(&0) {
        name.pop();
    }
    name
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
