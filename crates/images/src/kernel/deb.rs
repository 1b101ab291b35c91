//! Debian packages, unpacked without installing them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::source::{MemberKind, TarReader, normalise};
use crate::unpack;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;
/// The whole of a kernel package never unpacks to more.
const UNPACKED_MAX: u64 = 8 << 30;

/// Why a package could not be unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebError {
    /// It is something else.
    #[error("it is not a Debian package")]
    NotArchive,
    /// It ends before it should, or its headers are damaged.
    #[error("it is cut short or damaged")]
    Truncated,
    /// A file in it is not safe to unpack.
    #[error("the entry {0:?} is not safe to unpack")]
    Unsafe(String),
    /// It unpacks to an absurd size.
    #[error("it unpacks to an absurd size")]
    TooLarge,
    /// Reading or writing failed.
    #[error("it could not be unpacked")]
    Io(#[from] io::Error),
}

/// The members of an `ar` archive: names, and where in `bytes` their contents are.
pub fn ar_members(bytes: &[u8]) -> Result<Vec<(String, Range<usize>)>, DebError> {
    if !bytes.starts_with(MAGIC) {
        return Err(DebError::NotArchive);
    }
    let mut members = Vec::new();
    let mut at = MAGIC.len();
    while at < bytes.len() {
        let header = bytes.get(at..at + HEADER).ok_or(DebError::Truncated)?;
        let (name, length) = ar_header(header).ok_or(DebError::Truncated)?;
        let start = at + HEADER;
        let end = start.checked_add(length).filter(|end| *end <= bytes.len()).ok_or(DebError::Truncated)?;
        members.push((name, start..end));
        // Contents start on even offsets.
        at = end + end % 2;
    }
    Ok(members)
}

/// Unpacks the regular files of a package that `keep` gives a place below `into`.
pub(super) fn unpack_deb(
    deb: &Path,
    into: &Path,
    keep: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<u64, DebError> {
    let mut file = File::open(deb)?;
    let data = find_data(&mut file)?;
    file.seek(SeekFrom::Start(data.start))?;
    let input = unpack::reader(file.take(data.end - data.start))?;
    let mut tar = TarReader::new(input.take(UNPACKED_MAX));
    let mut files = 0;
    while let Some(member) = tar.next()? {
        let unsafe_entry = || DebError::Unsafe(String::from_utf8_lossy(&member.path).into_owned());
        let path = normalise(&member.path).map_err(|_| unsafe_entry())?;
        let Some(place) = keep(&path).filter(|_| member.kind == MemberKind::File) else { continue };
        let place = into.join(std::ffi::OsStr::from_bytes(&place));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut out = File::create_new(&place)?;
        let copied = io::copy(&mut tar.content(&member), &mut out)?;
        if copied != member.size {
            return Err(DebError::Truncated);
        }
        out.flush()?;
        files += 1;
    }
    if !tar.has_end_mark() {
        return Err(DebError::Truncated);
    }
    Ok(files)
}

/// Finds `data.tar*` by reading headers only.
fn find_data(file: &mut File) -> Result<Range<u64>, DebError> {
    let length = file.metadata()?.len();
    let mut magic = [0; 8];
    file.read_exact(&mut magic).map_err(|_| DebError::NotArchive)?;
    if magic != MAGIC {
        return Err(DebError::NotArchive);
    }
    let mut at = MAGIC.len() as u64;
    while at < length {
        let mut header = [0; HEADER];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut header).map_err(|_| DebError::Truncated)?;
        let (name, size) = ar_header(&header).ok_or(DebError::Truncated)?;
        let start = at + HEADER as u64;
        let end = start.checked_add(size as u64).filter(|end| *end <= length).ok_or(DebError::Truncated)?;
        if name.starts_with("data.tar") {
            return Ok(start..end);
        }
        at = end + end % 2;
    }
    Err(DebError::Truncated)
}

fn ar_header(header: &[u8]) -> Option<(String, usize)> {
    if header.get(58..60)? != b"`\n" {
        return None;
    }
    let text = |range: Range<usize>| std::str::from_utf8(header.get(range)?).ok().map(str::trim_end);
    let name = text(0..16)?.trim_end_matches('/').to_owned();
    Some((name, text(48..58)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (name, content) in members {
            writeln!(bytes, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, content.len())
                .unwrap();
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        }
        bytes
    }

    fn deb_with(path: &str, content: &[u8]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, content).unwrap();
        let data = zstd::encode_all(&tar.into_inner().unwrap()[..], 1).unwrap();
        ar(&[("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.zst", &data)])
    }

    #[test]
    fn members_are_found_behind_odd_ones() {
        let bytes = ar(&[("a/", b"odd"), ("b", b"content")]);
        let members = ar_members(&bytes).unwrap();
        assert_eq!(members[0].0, "a");
        assert_eq!(&bytes[members[1].1.clone()], b"content");
    }

    #[test]
    fn a_package_gives_the_files_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let deb = place.path().join("x.deb");
        fs::write(&deb, deb_with("./boot/vmlinuz-1", b"kernel")).unwrap();
        let keep = |path: &[u8]| path.starts_with(b"boot/").then(|| path.to_vec());
        assert_eq!(unpack_deb(&deb, place.path(), keep).unwrap(), 1);
        assert_eq!(fs::read(place.path().join("boot/vmlinuz-1")).unwrap(), b"kernel");
    }

    #[test]
    fn hostile_and_broken_packages_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let deb = place.path().join("x.deb");
        let run = |bytes: &[u8]| {
            fs::write(&deb, bytes).unwrap();
            unpack_deb(&deb, &place.path().join("out"), |path| Some(path.to_vec())).unwrap_err()
        };
        assert!(matches!(run(&deb_with("../evil", b"x")), DebError::Unsafe(path) if path == "../evil"));
        assert!(matches!(run(b"not a package"), DebError::NotArchive));
        let good = deb_with("a", b"x");
        assert!(matches!(run(&good[..good.len() - 8]), DebError::Truncated));
        assert!(matches!(run(&ar(&[("debian-binary", b"2.0\n")])), DebError::Truncated));
        assert!(!place.path().join("evil").exists());
    }

    proptest! {
        #[test]
        fn no_archive_makes_it_panic(junk in proptest::collection::vec(any::<u8>(), 0..80), at in 0usize..140) {
            let mut bytes = ar(&[("a", b"one"), ("b", b"two")]);
            let end = (at + junk.len()).min(bytes.len());
            if at < end {
                bytes[at..end].copy_from_slice(&junk[..end - at]);
            }
            if let Ok(members) = ar_members(&bytes) {
                prop_assert!(members.iter().all(|(_, range)| range.end <= bytes.len()));
            }
        }
    }
}
