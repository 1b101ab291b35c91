//! File systems that no kernel would write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use agentiso_core::Explain;
use agentiso_core::ports::DiskView;
use agentiso_diff::{Change, ChangeKind, DiffError, Ext4Error, FileContent, Options, compare, read_file};
use agentiso_testing::disk_view::{Overlaid, PlainFile};
use agentiso_testing::seeded;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::image::{Place, diff, lines};

fn refused(before: &Path, after: &Path) -> Ext4Error {
    let (one, other) = (PlainFile::open(before), PlainFile::open(after));
    match compare(&one, &other, &Options::default()) {
        Err(DiffError::After(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The unreadable paths reported for a disk with damage in one place.
fn unreadable(before: &Path, after: &Path) -> Vec<String> {
    let (one, other) = (PlainFile::open_unknown(before), PlainFile::open_unknown(after));
    lines(&compare(&one, &other, &Options::default()).unwrap())
}

#[test]
fn a_directory_inside_itself_is_reported_and_not_entered() {
    let place = Place::new();
    place.write("dir/sub/file", "x");
    let image = place.image("a", "16M", &[]);
    let looped = place.changed(&image, "b", "ln /dir /dir/sub/again\n");
    let found = unreadable(&image, &looped);
    assert!(
        found.iter().any(|line| line.starts_with("! /dir/sub/again ") && line.contains("more than once"))
    );
    let twice = place.changed(&image, "c", "ln /dir /dir2\n");
    let found = unreadable(&image, &twice);
    assert!(
        found.iter().any(|line| line.starts_with("! /dir2 ") && line.contains("more than once")),
        "{found:?}"
    );
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_compared() {
    let place = Place::new();
    place.write("file", "x");
    place.write("other", "before");
    let image = place.image("a", "16M", &[]);
    for freed in ["clri /file\n", "sif /file links_count 0\n", "sif /file mode 0\n"] {
        let after = place.changed(&image, "b", &format!("{freed}sif /other mode 0100600\n"));
        let found = unreadable(&image, &after);
        assert_eq!(found.len(), 2, "{freed}: {found:?}");
        assert!(found[0].starts_with("! /file ") && found[0].contains("not in use"), "{freed}: {found:?}");
        assert_eq!(found[1], "M /other mode", "{freed}");
    }
}

#[test]
fn a_disk_without_a_file_system_is_recognised() {
    let place = Place::new();
    let image = place.image("a", "16M", &[]);
    for (name, content) in [("empty", vec![]), ("short", vec![0; 1500]), ("zeros", vec![0; 1 << 20])] {
        let path = place.path(name);
        fs::write(&path, content).unwrap();
        assert!(matches!(refused(&image, &path), Ext4Error::NotExt4 { .. }), "{name}");
    }
    let cut = place.path("cut");
    fs::write(&cut, &fs::read(&image).unwrap()[..8 << 20]).unwrap();
    assert!(refused(&image, &cut).to_string().contains("larger than"));
    let encrypted = place.image("encrypted", "16M", &["-O", "encrypt"]);
    assert!(refused(&image, &encrypted).to_string().contains("uses encryption"));
}

#[test]
fn too_many_entries_are_an_error_that_names_the_limit() {
    let place = Place::new();
    for index in 0..30 {
        place.write(&format!("dir{}/file{index}", index % 3), "x");
    }
    let image = place.image("a", "16M", &[]);
    let after = place.changed(&image, "b", "sif /dir1 uid 5\n");
    let (one, other) = (PlainFile::open(&image), PlainFile::open(&after));
    // Three directories, thirty files, lost+found.
    let within = Options { max_entries: 34, ..Options::default() };
    assert_eq!(compare(&one, &other, &within).unwrap().entries.len(), 1);
    let beyond = Options { max_entries: 33, ..Options::default() };
    let error = compare(&one, &other, &beyond).unwrap_err();
    let DiffError::Before(cause @ Ext4Error::TooLarge { limit: 33, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(cause.to_string(), "the file system has more than 33 entries");
    assert!(error.remedy().is_some());
}

#[test]
fn an_overlong_path_is_rejected() {
    let place = Place::new();
    let image = place.image("a", "16M", &["-b", "1024"]);
    let name = "d".repeat(250);
    let deep = |depth: usize| {
        let commands: String = (0..depth).map(|_| format!("mkdir {name}\ncd {name}\n")).collect();
        place.changed(&image, "b", &commands)
    };
    assert_eq!(diff(&image, &deep(60)).entries.len(), 60);
    assert!(refused(&image, &deep(70)).to_string().contains("bytes in a path"));
}

#[test]
fn files_that_share_their_blocks_cannot_cause_endless_reads() {
    let place = Place::new();
    place.write("big", vec![1; 3 << 20]);
    for index in 0..60 {
        place.write(&format!("file{index:02}"), "x");
    }
    let image = place.image("a", "16M", &["-O", "^metadata_csum"]);
    let before = fs::read(&image).unwrap();
    // Every file gets the extents of the big one.
    let extents = inode_of(&before, |size| size == 3 << 20)[0];
    let small = inode_of(&before, |size| size == 1);
    assert_eq!(small.len(), 60);
    let mut one = before.clone();
    for inode in small {
        one.copy_within(extents..extents + 0x64, inode);
    }
    let mut other = one.clone();
    let block = other.chunks(1024).position(|block| block == [1; 1024]).unwrap();
    other[block * 1024 + (3 << 20) - 5000] = 2;
    let paths = [place.path("one"), place.path("other")];
    fs::write(&paths[0], one).unwrap();
    fs::write(&paths[1], other).unwrap();
    let views = paths.map(|path| PlainFile::open_unknown(&path));
    let error = compare(&views[0], &views[1], &Options::default()).unwrap_err();
    assert!(matches!(error, DiffError::Before(Ext4Error::TooLarge { .. })), "{error:?}");
}

/// Offsets of the inodes of regular files with some sizes.
fn inode_of(image: &[u8], is_wanted: impl Fn(u32) -> bool) -> Vec<usize> {
    let is_file = |at: &usize| image[at + 1] >> 4 == 8 && image[at + 0x28..at + 0x2a] == [0x0a, 0xf3];
    let size = |at: usize| u32::from_le_bytes(image[at + 4..at + 8].try_into().unwrap());
    (0..image.len() - 256).step_by(256).filter(is_file).filter(|at| is_wanted(size(*at))).collect()
}

/// A small image with every kind of file, and the same image with renames and changes.
struct Samples {
    _place: Place,
    images: Vec<(PlainFile, Vec<u64>)>,
}

impl Samples {
    fn make() -> Self {
        let place = Place::new();
        for index in 0..40 {
            place.write(&format!("dir/sub{}/file{index}", index % 5), vec![b'x'; index * 31]);
        }
        symlink("y".repeat(100), place.tree().join("long")).unwrap();
        symlink("short", place.tree().join("short")).unwrap();
        let formats: [&[&str]; 3] = [
            &["-b", "1024", "-J", "size=1"],
            &["-b", "1024", "-O", "inline_data,ea_inode,^has_journal"],
            &["-b", "1024", "-O", "^extents,^64bit,^has_journal"],
        ];
        let mut images = Vec::new();
        for (index, options) in formats.into_iter().enumerate() {
            let plain = place.image(&format!("plain{index}"), "3M", options);
            let mut commands = "ea_set /dir user.a b\nea_set /short user.a b\n".to_owned();
            if options.contains(&"size=1") {
                let file = place.path("block");
                fs::write(&file, [b'z'; 1024]).unwrap();
                commands += &format!("jo -c -v 3\njw -b 1999 {}\njw -r 1998\njc\n", file.display());
            }
            let path = place.changed(&plain, &format!("image{index}"), &commands);
            let bytes = fs::read(&path).unwrap();
            let used = (0..).zip(&bytes).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
            images.push((PlainFile::open(&path), used));
        }
        Self { _place: place, images }
    }
}

fn check(image: &PlainFile, flips: &[(u64, u8)]) -> Result<(), TestCaseError> {
    let mut damaged = Overlaid::new(image);
    for (at, byte) in flips {
        damaged.write(*at, &[*byte]);
    }
    let options = Options::default();
    let unknown = Unknown(&damaged);
    // Both directions must agree, if both can be compared.
    for backwards in [false, true] {
        let in_order =
            |other| if backwards { compare(other, image, &options) } else { compare(image, other, &options) };
        let (shared, read) = (in_order(&damaged as &dyn DiskView), in_order(&unknown));
        if let (Ok(shared), Ok(read)) = (&shared, &read)
            && shared.totals.unreadable + read.totals.unreadable == 0
        {
            prop_assert_eq!(lines(shared), lines(read));
        }
    }
    // A disk never differs from itself.
    if let Ok(changes) = compare(&damaged, &unknown, &options) {
        let is_unreadable = |change: &Change| matches!(change.kind, ChangeKind::Unreadable { .. });
        prop_assert!(changes.entries.iter().all(is_unreadable), "{:?}", lines(&changes));
    }
    if let Ok(content) = read_file(&damaged, b"/dir/sub3/file33", 100) {
        let is_longer = matches!(content, FileContent::File { bytes, .. } if bytes.len() > 100);
        prop_assert!(!is_longer);
    }
    Ok(())
}

/// A view that does not reveal where its bytes are stored.
struct Unknown<'a>(&'a dyn DiskView);

impl DiskView for Unknown<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn extent_at(&self, offset: u64) -> std::io::Result<agentiso_core::ports::Extent> {
        let extent = self.0.extent_at(offset)?;
        Ok(agentiso_core::ports::Extent { origin: agentiso_core::ports::Origin::Unknown, ..extent })
    }
}

#[test]
fn damage_causes_neither_panics_nor_false_differences() {
    let samples = Samples::make();
    let flip = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let flips = (0..samples.images.len(), vec(flip, 1..12));
    let mut runner = proptest::test_runner::TestRunner::new(seeded(256));
    let result = runner.run(&flips, |(image, flips)| {
        let (image, used) = &samples.images[image];
        // Mostly at used places, since most of a disk is empty.
        let place = |used_at: prop::sample::Index, anywhere: prop::sample::Index, is_used| {
            if is_used { *used_at.get(used) } else { anywhere.index(image.size() as usize) as u64 }
        };
        let flips: Vec<(u64, u8)> =
            flips.iter().map(|(used, any, byte, is_used)| (place(*used, *any, *is_used), *byte)).collect();
        check(image, &flips)
    });
    result.unwrap();
}
