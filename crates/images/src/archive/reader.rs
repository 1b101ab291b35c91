//! Reading an archive.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::{DESCRIPTION_MAX, HASH, MAGIC, PIECE_MAX, VERSION, WorkspaceDescription};

/// Checks the checksum of an archive and reads its description. The file is at its first piece afterwards.
pub(super) fn open(file: &mut File) -> io::Result<WorkspaceDescription> {
    let mut magic = [0; MAGIC.len()];
    if !read_whole(file, &mut magic)? || magic != *MAGIC {
        return Err(invalid("it is not an archive of a workspace"));
    }
    let version = number(file)?;
    if version != VERSION {
        return Err(invalid(format!(
            "it has version {version}, but this version of agentiso reads only {VERSION}"
        )));
    }
    verify(file)?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64 + 4))?;
    let length = number(file)?;
    if length > DESCRIPTION_MAX {
        return Err(invalid("its description is too long"));
    }
    let mut text = vec![0; length as usize];
    if !read_whole(file, &mut text)? {
        return Err(cut_short());
    }
    serde_json::from_slice(&text)
        .map_err(|error| invalid(format!("its description cannot be understood: {error}")))
}

/// Verifies the checksum at the end.
fn verify(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let body = length.checked_sub(HASH as u64).ok_or_else(cut_short)?;
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = blake3::Hasher::new();
    let hashed = io::copy(&mut file.by_ref().take(body), &mut hasher)?;
    let mut hash = [0; HASH];
    if hashed != body || !read_whole(file, &mut hash)? {
        return Err(cut_short());
    }
    if *hasher.finalize().as_bytes() != hash {
        return Err(invalid("its checksum is wrong: it is damaged or incomplete"));
    }
    Ok(())
}

/// The bytes of all pieces. An archive without its end marker is an error.
pub(super) struct Pieces {
    file: BufReader<File>,
    left: usize,
    ended: bool,
}

impl Pieces {
    /// Reads from a file that is at its first piece.
    pub(super) fn of(file: File) -> Self {
        Self { file: BufReader::with_capacity(128 << 10, file), left: 0, ended: false }
    }

    fn next_piece(&mut self) -> io::Result<()> {
        self.left = number(&mut self.file)? as usize;
        if self.left > PIECE_MAX {
            return Err(invalid("a piece of it is too long"));
        }
        if self.left == 0 {
            let mut rest = Vec::new();
            self.file.by_ref().take(HASH as u64 + 1).read_to_end(&mut rest)?;
            if rest.len() != HASH {
                return Err(invalid("it does not end where it should"));
            }
            self.ended = true;
        }
        Ok(())
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            self.next_piece()?;
        }
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        let want = buffer.len().min(self.left);
        let got = self.file.read(&mut buffer[..want])?;
        if got == 0 {
            return Err(cut_short());
        }
        self.left -= got;
        Ok(got)
    }
}

fn number(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    if read_whole(input, &mut bytes)? { Ok(u32::from_le_bytes(bytes)) } else { Err(cut_short()) }
}

/// Fills the buffer; false at the end of the file.
fn read_whole(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut short")
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}
