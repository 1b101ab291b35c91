//! A tarball of a root file system as a source.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{EntryKind, RootfsSink};
use agentiso_core::progress::Progress;

use super::{Member, MemberKind, TarReader};
use crate::source::intake::{Attributes, Intake};
use crate::source::{ImportLimits, RootfsSource, SourceError, Summary};
use crate::store::{ImageSource, SourceKind};
use crate::unpack::{self, Compression};

/// Archives are padded with zeroes, but not with more than this.
const TRAILER_MAX: u64 = 64 << 20;

/// A tarball of a root file system: plain, gzip, xz or zstd.
#[derive(Debug)]
pub struct TarSource {
    path: PathBuf,
    length: u64,
    compression: Compression,
}

impl TarSource {
    /// Opens a tarball.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let failed = |error| SourceError::io("read", path.display())(error);
        let mut file = File::open(path).map_err(failed)?;
        let mut head = Vec::new();
        file.by_ref().take(512).read_to_end(&mut head).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_owned(), length, compression: Compression::of(&head) })
    }
}

impl RootfsSource for TarSource {
    fn describe(&self) -> ImageSource {
        ImageSource { kind: SourceKind::Tar, reference: self.path.display().to_string() }
    }

    fn size_hint(&self) -> u64 {
        self.length.saturating_mul(self.compression.usual_ratio())
    }

    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        let origin = self.path.display().to_string();
        let corrupt = SourceError::corrupt(&origin);
        let file = File::open(&self.path).map_err(SourceError::io("read", &origin))?;
        progress.step("reading the tarball", Some(self.length));
        let input = unpack::reader(Counted { inner: file, progress }).map_err(&corrupt)?;
        let summary = stream_tar(input, sink, limits, &origin)?;
        progress.done(&format!("{} entries", summary.entries));
        Ok(summary)
    }
}

/// Passes everything in a tarball on to the sink, checked and in order.
pub(crate) fn stream_tar(
    input: impl Read,
    sink: &mut dyn RootfsSink,
    limits: ImportLimits,
    origin: &str,
) -> Result<Summary, SourceError> {
    let corrupt = SourceError::corrupt(origin);
    let mut tar = TarReader::new(input);
    let mut intake = Intake::new(sink, limits, origin);
    let mut members = 0u64;
    while let Some(member) = tar.next().map_err(&corrupt)? {
        members += 1;
        let Some(kind) = entry_kind(&member) else { continue };
        intake.add(&member.path, kind, attributes(&member), &mut tar.content(&member))?;
    }
    if !tar.has_end_mark() {
        let reason = if members == 0 { "it is not a tar archive" } else { "it has no end: it was cut short" };
        return Err(corrupt(io::Error::new(io::ErrorKind::UnexpectedEof, reason)));
    }
    // The checksums of a compressed archive come at its very end.
    io::copy(&mut tar.into_inner().take(TRAILER_MAX), &mut io::sink()).map_err(&corrupt)?;
    let (entries, bytes) = intake.totals();
    Ok(Summary { entries, bytes, digest: None, defaults: None })
}

/// What a member becomes; `None` if it is no part of a file system.
pub(in crate::source) fn entry_kind(member: &Member) -> Option<EntryKind> {
    let (major, minor) = member.device;
    Some(match member.kind {
        MemberKind::File => EntryKind::File { size: member.size },
        MemberKind::Hardlink => EntryKind::Hardlink { target: member.link.clone() },
        MemberKind::Symlink => EntryKind::Symlink { target: member.link.clone() },
        MemberKind::Directory => EntryKind::Directory,
        MemberKind::CharDevice => EntryKind::CharDevice { major, minor },
        MemberKind::BlockDevice => EntryKind::BlockDevice { major, minor },
        MemberKind::Fifo => EntryKind::Fifo,
        MemberKind::Other => return None,
    })
}

/// The member's owner, mode, time and attributes.
pub(in crate::source) fn attributes(member: &Member) -> Attributes {
    Attributes {
        // Archives may put the file type above the permission bits.
        mode: (member.mode & 0o7777) as u32,
        uid: member.uid,
        gid: member.gid,
        mtime: member.mtime,
        xattrs: member.xattrs.clone(),
    }
}

/// Tells how much has been read.
pub(in crate::source) struct Counted<'a, R> {
    pub(in crate::source) inner: R,
    pub(in crate::source) progress: &'a dyn Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.progress.advance(got as u64);
        Ok(got)
    }
}
