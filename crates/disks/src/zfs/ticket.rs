//! The links to volumes. A volume exists for as long as its link does.
//!
//! A disk is a link to the device of its volume. A property of the volume stores the path of the link, so that a volume
//! without a link can be found. A link is created, with a partial name, before its volume.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use agentiso_core::ports::{Dataset, is_partial_name, partial_name};
use rustix::fs::{CWD, RenameFlags};

use super::name::{Volume, Volumes};

/// A link with a partial name, removed when dropped unless it got its final name.
#[derive(Debug)]
pub(super) struct Ticket {
    partial: PathBuf,
    target: PathBuf,
    in_place: bool,
}

impl Ticket {
    /// Creates a link to a future volume, replacing a partial one that a killed process left.
    pub(super) fn write(target: &Path, volume: &Volume) -> io::Result<Self> {
        let name =
            target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
        let partial = target.with_file_name(partial_name(name));
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(volume.node(), &partial)?;
        Ok(Self { partial, target: target.to_owned(), in_place: false })
    }

    /// Renames the link to its final name. Fails with `AlreadyExists` if there is such a file.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        rustix::fs::renameat_with(CWD, &self.partial, CWD, &self.target, RenameFlags::NOREPLACE)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.in_place {
            // The earlier error is reported; the next attempt removes the link too.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// The volume of a link; `None` if it is not a link to one of our volumes.
pub(super) fn volume_of(dataset: &Dataset, path: &Path) -> io::Result<Option<Volume>> {
    match fs::read_link(path) {
        Ok(node) => Ok(dataset.volume_at(&node)),
        // Not a link.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

/// Encodes a path for a ZFS property: characters that `zfs` would not print literally are escaped.
pub(super) fn spell(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    let mut text = String::new();
    for &byte in inside.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    (is_plain && !text.is_empty()).then_some(text)
}

/// Decodes such a path.
fn unspell(root: &Path, text: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first == b'%' {
            let (digits, after) = more.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    Some(root.join(std::ffi::OsString::from_vec(bytes)))
}

/// Whether the link of a volume still exists: with its final name, its partial name, or in its directory after that got its
/// final name.
pub(super) fn is_named(dataset: &Dataset, root: &Path, volume: &Volume, spelt: &str) -> io::Result<bool> {
    let Some(path) = unspell(root, spelt) else { return Ok(false) };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
    let mut dirs = vec![dir.to_owned()];
    if let Some(whole) = dir.file_name().filter(|name| is_partial_name(name)).and_then(|name| name.to_str())
        && let Some(whole) = whole.strip_prefix('.').and_then(|name| name.strip_suffix(".partial"))
    {
        dirs.push(dir.with_file_name(whole));
    }
    for candidate in dirs.iter().flat_map(|dir| [dir.join(name), dir.join(partial_name(name))]) {
        match volume_of(dataset, &candidate) {
            Ok(Some(named)) if named == *volume => return Ok(true),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            // If that cannot be determined, it may exist.
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn volume() -> (Dataset, Volume) {
        let dataset = Dataset::parse("tank/a").unwrap();
        let volume = dataset.volume_named("tank/a/0123456789abcdef/v").unwrap();
        (dataset, volume)
    }

    #[test]
    fn a_volume_is_named_from_before_it_is_made_until_its_link_is_gone() {
        let (dataset, volume) = volume();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.zvol");
        let spelt = spell(dir.path(), &path).unwrap();
        let named = || is_named(&dataset, dir.path(), &volume, &spelt).unwrap();
        assert!(!named());
        let mut ticket = Ticket::write(&path, &volume).unwrap();
        assert!(named());
        ticket.publish().unwrap();
        assert!(named());
        assert_eq!(volume_of(&dataset, &path).unwrap(), Some(volume.clone()));
        fs::remove_file(&path).unwrap();
        assert!(!named());
        // Another link of that name is another volume's.
        std::os::unix::fs::symlink("/dev/zvol/tank/a/0123456789abcdef/w", &path).unwrap();
        assert!(!named());
    }

    #[test]
    fn a_volume_made_in_a_directory_that_was_not_whole_is_named_when_that_is() {
        let (dataset, volume) = volume();
        let root = tempfile::tempdir().unwrap();
        let (partial, whole) = (root.path().join("t/.key.partial"), root.path().join("t/key"));
        fs::create_dir_all(&partial).unwrap();
        let path = partial.join("disk");
        Ticket::write(&path, &volume).unwrap().publish().unwrap();
        let spelt = spell(root.path(), &path).unwrap();
        fs::rename(&partial, &whole).unwrap();
        assert!(is_named(&dataset, root.path(), &volume, &spelt).unwrap());
        fs::remove_dir_all(&whole).unwrap();
        assert!(!is_named(&dataset, root.path(), &volume, &spelt).unwrap());
    }

    #[test]
    fn a_ticket_that_was_not_used_vanishes_and_none_overwrites() {
        let (_, volume) = volume();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.zvol");
        fs::write(dir.path().join(".disk.zvol.partial"), "left").unwrap();
        let mut ticket = Ticket::write(&path, &volume).unwrap();
        fs::write(&path, "precious").unwrap();
        assert_eq!(ticket.publish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(ticket);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn links_to_what_is_not_ours_name_nothing() {
        let (dataset, _) = volume();
        let dir = tempfile::tempdir().unwrap();
        for (number, target) in
            ["/dev/sda", "/dev/zvol/tank/home/x", "/dev/zvol/tank/a/../b", ""].iter().enumerate()
        {
            let path = dir.path().join(number.to_string());
            if !target.is_empty() {
                std::os::unix::fs::symlink(target, &path).unwrap();
                assert_eq!(volume_of(&dataset, &path).unwrap(), None, "{target}");
            }
        }
        assert_eq!(volume_of(&dataset, dir.path()).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_path_inside_is_spelt_in_plain_letters_and_read_back(parts in proptest::collection::vec("[^/\0]{1,12}", 1..4)) {
            let root = Path::new("/home/x");
            let path = parts.iter().fold(root.to_owned(), |path, part| path.join(part));
            if let Some(spelt) = spell(root, &path) {
                prop_assert!(spelt.bytes().all(|byte| byte.is_ascii_graphic()), "{}", spelt);
                prop_assert_eq!(unspell(root, &spelt).unwrap(), path);
            }
        }

        #[test]
        fn any_text_is_a_path_or_none(text in "\\PC{0,20}") {
            let _ = unspell(Path::new("/home/x"), &text);
        }
    }

    #[test]
    fn paths_outside_are_not_spelt() {
        let root = Path::new("/home/x");
        for path in ["/home/y/disk", "/home/x", "/home/x/../y/disk"] {
            assert_eq!(spell(root, Path::new(path)), None, "{path}");
        }
    }
}
