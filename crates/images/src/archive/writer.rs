//! Writing an archive.

use std::io::{self, Write};

use super::{DESCRIPTION_MAX, MAGIC, PIECE_MAX, VERSION, WorkspaceDescription};

/// Writes an archive. Bytes written to it become its pieces.
pub struct ArchiveWriter<W: Write> {
    out: W,
    hasher: blake3::Hasher,
    piece: Vec<u8>,
    length: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Starts an archive with its description.
    pub fn new(out: W, description: &WorkspaceDescription) -> io::Result<Self> {
        let text = serde_json::to_vec(description)?;
        let length = u32::try_from(text.len()).ok().filter(|length| *length <= DESCRIPTION_MAX);
        let length = length.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the description of the workspace is too long")
        })?;
        let mut writer =
            Self { out, hasher: blake3::Hasher::new(), piece: Vec::with_capacity(PIECE_MAX), length: 0 };
        writer.raw(MAGIC)?;
        writer.raw(&VERSION.to_le_bytes())?;
        writer.raw(&length.to_le_bytes())?;
        writer.raw(&text)?;
        Ok(writer)
    }

    /// Ends the archive. Returns the writer and the number of bytes.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.end_piece()?;
        self.raw(&0_u32.to_le_bytes())?;
        let hash = self.hasher.finalize();
        self.out.write_all(hash.as_bytes())?;
        self.out.flush()?;
        Ok((self.out, self.length + hash.as_bytes().len() as u64))
    }

    fn end_piece(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if let Ok(length @ 1..) = u32::try_from(piece.len()) {
            self.raw(&length.to_le_bytes())?;
            self.raw(&piece)?;
        }
        self.piece = piece;
        self.piece.clear();
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

impl<W: Write> Write for ArchiveWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE_MAX {
            self.end_piece()?;
        }
        let taken = bytes.len().min(PIECE_MAX - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
