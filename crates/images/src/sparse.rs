//! Copying a sparse file without filling its holes.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Copies `from` to the empty file `to`: shared blocks where the file system can, else only the data.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut offset = 0;
    while offset < length {
        let data = match rustix::fs::seek(from, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // No such notion on this file system: treat the rest as data.
            Err(Errno::INVAL) => offset,
            Err(error) => return Err(error.into()),
        };
        let end = match rustix::fs::seek(from, SeekFrom::Hole(data)) {
            Ok(end) => end,
            Err(Errno::INVAL) => length,
            Err(error) => return Err(error.into()),
        };
        copy_range(from, to, data, end)?;
        offset = end;
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; 1 << 20];
    let mut at = start;
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let got = from.read_at(&mut buffer[..want], at)?;
        if got == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was copied"));
        }
        to.write_all_at(&buffer[..got], at)?;
        at += got as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn holes_stay_holes_and_data_stays_data() {
        let from = tempfile::tempfile().unwrap();
        from.set_len(64 << 20).unwrap();
        from.write_all_at(b"begin", 0).unwrap();
        from.write_all_at(b"middle", 33 << 20).unwrap();
        let to = tempfile::tempfile().unwrap();

        copy(&from, &to).unwrap();

        let mut text = [0; 6];
        to.read_exact_at(&mut text, 33 << 20).unwrap();
        assert_eq!(&text, b"middle");
        to.read_exact_at(&mut text[..5], 0).unwrap();
        assert_eq!(&text[..5], b"begin");
        let meta = to.metadata().unwrap();
        assert_eq!(meta.len(), 64 << 20);
        assert!(meta.blocks() * 512 < 4 << 20, "{} bytes allocated", meta.blocks() * 512);
    }
}
