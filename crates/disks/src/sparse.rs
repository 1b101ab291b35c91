//! Sparse files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// The buffer size where `copy_file_range` is not supported.
const COPY_CHUNK: usize = 1 << 20;

/// A range of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// Whether it is data; otherwise a hole.
    pub is_data: bool,
    /// Its length.
    pub length: u64,
}

/// The range at `offset` of a file, of at most `limit` bytes. Beyond the end of the file is a hole.
pub fn piece_at(file: &File, offset: u64, limit: u64) -> io::Result<Piece> {
    // These calls move the file's position, which is not used here.
    let data = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Err(Errno::NXIO) => return Ok(Piece { is_data: false, length: limit }),
        other => other?,
    };
    if data > offset {
        return Ok(Piece { is_data: false, length: limit.min(data - offset) });
    }
    let hole = match rustix::fs::seek(file, SeekFrom::Hole(offset)) {
        Err(Errno::NXIO) => return Ok(Piece { is_data: false, length: limit }),
        other => other?,
    };
    Ok(Piece { is_data: true, length: limit.min(hole - offset) })
}

/// Reads from `offset`; beyond the end of the file it reads zeros.
pub fn read_padded(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => {
                buffer.fill(0);
                return Ok(());
            }
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes `bytes` at `offset` of a file that has a hole there, leaving out blocks of zeros.
pub fn write_sparse(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    const BLOCK: usize = 4096;
    let mut offset = offset;
    for block in bytes.chunks(BLOCK) {
        if block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, offset)?;
        }
        offset += block.len() as u64;
    }
    Ok(())
}

/// Copies `length` bytes into a hole of another file; holes stay holes and are not read.
pub fn copy(from: &File, mut at: u64, to: &File, mut target: u64, mut length: u64) -> io::Result<()> {
    while length > 0 {
        let piece = piece_at(from, at, length)?;
        if piece.is_data {
            copy_data(from, at, to, target, piece.length)?;
        }
        at += piece.length;
        target += piece.length;
        length -= piece.length;
    }
    Ok(())
}

fn copy_data(from: &File, at: u64, to: &File, target: u64, length: u64) -> io::Result<()> {
    let (mut source, mut sink) = (at, target);
    while source < at + length {
        let left = usize::try_from(at + length - source).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut sink), left) {
            // The file was truncated in the meantime; the rest is zeros, like the hole in the target.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_by_hand(from, source, to, sink, at + length - source);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, mut at: u64, to: &File, mut target: u64, mut length: u64) -> io::Result<()> {
    let mut buffer = vec![0; COPY_CHUNK];
    while length > 0 {
        let count = usize::try_from(length).map_or(COPY_CHUNK, |length| length.min(COPY_CHUNK));
        let chunk = &mut buffer[..count];
        read_padded(from, at, chunk)?;
        to.write_all_at(chunk, target)?;
        at += count as u64;
        target += count as u64;
        length -= count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn pieces_tell_data_from_holes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 4096], 64 << 10).unwrap();
        let hole = Piece { is_data: false, length: 64 << 10 };
        assert_eq!(piece_at(&file, 0, 1 << 20).unwrap(), hole);
        assert_eq!(piece_at(&file, 64 << 10, 100).unwrap(), Piece { is_data: true, length: 100 });
        assert_eq!(piece_at(&file, 1 << 20, 7).unwrap(), Piece { is_data: false, length: 7 });
    }

    #[test]
    fn every_way_to_copy_keeps_holes() {
        let from = tempfile::tempfile().unwrap();
        from.set_len(8 << 20).unwrap();
        from.write_all_at(&[7; 100_000], 3 << 20).unwrap();
        let to = tempfile::tempfile().unwrap();
        to.set_len(10 << 20).unwrap();
        copy(&from, 1 << 20, &to, 2 << 20, 7 << 20).unwrap();
        let mut copied = vec![0; 100_001];
        read_padded(&to, 4 << 20, &mut copied).unwrap();
        assert!(copied[..100_000].iter().all(|&byte| byte == 7) && copied[100_000] == 0);
        assert!(to.metadata().unwrap().blocks() * 512 < 1 << 20);

        let by_hand = tempfile::tempfile().unwrap();
        copy_by_hand(&from, 3 << 20, &by_hand, 5, 100_000).unwrap();
        read_padded(&by_hand, 5, &mut copied).unwrap();
        assert!(copied[..100_000].iter().all(|&byte| byte == 7) && copied[100_000] == 0);
    }
}
