//! File systems that were in use: they are read as if the journal had been replayed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_diff::{DiffError, Ext4Error, Options, compare};
use agentiso_testing::disk_view::PlainFile;

use crate::image::{Place, debugfs, diff, lines, run};

/// The 1 KiB blocks in which two images differ.
fn differing_blocks(one: &Path, other: &Path) -> Vec<(usize, Vec<u8>)> {
    let (one, other) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    let blocks = one.chunks(1024).zip(other.chunks(1024)).enumerate();
    blocks
        .filter(|(_, (one, other))| one != other)
        .map(|(block, (_, other))| (block, other.to_vec()))
        .collect()
}

/// An image, a changed copy, and a copy of the original whose journal contains the changes.
fn journalled(place: &Place, options: &[&str], open: &str) -> (PathBuf, PathBuf, PathBuf) {
    for index in 0..50 {
        place.write(&format!("dir/file{index}"), "content");
    }
    let image = place.image("a", "16M", options);
    let wanted = place.changed(&image, "wanted", "rm /dir/file7\nsif /dir/file9 uid 9\nmkdir /new\n");
    let copy = place.path("dirty");
    fs::copy(&image, &copy).unwrap();
    let mut commands = format!("{open}\n");
    for (block, content) in differing_blocks(&image, &wanted) {
        let file = place.path(&format!("block{block}"));
        // Two transactions each: the first is wrong and must not count.
        fs::write(&file, vec![0xee; 1024]).unwrap();
        let wrong = place.path(&format!("wrong{block}"));
        fs::rename(&file, &wrong).unwrap();
        fs::write(&file, content).unwrap();
        commands += &format!("jw -b {block} {}\njw -b {block} {}\n", wrong.display(), file.display());
    }
    commands += "jc\n";
    debugfs(&copy, &commands);
    (image, wanted, copy)
}

#[test]
fn committed_blocks_are_read_in_every_journal_format() {
    for (options, open) in [
        (&["-b", "1024"][..], "jo"),
        (&["-b", "1024"][..], "jo -c -v 3"),
        (&["-b", "1024", "-O", "^64bit,^metadata_csum"][..], "jo"),
        (&["-b", "1024", "-O", "^64bit"][..], "jo -c -v 2"),
    ] {
        let place = Place::new();
        let (image, wanted, dirty) = journalled(&place, options, open);
        let expected = ["- /dir/file7", "M /dir/file9 owner", "+ /new"];
        assert_eq!(lines(&diff(&image, &wanted)), expected);
        assert_eq!(lines(&diff(&image, &dirty)), expected, "{options:?} {open}");
        assert!(diff(&dirty, &wanted).entries.is_empty());
        let checked = place.path("checked");
        fs::copy(&dirty, &checked).unwrap();
        run(Command::new("e2fsck").args(["-E", "journal_only", "-y"]).arg(&checked), None);
        assert!(diff(&dirty, &checked).entries.is_empty(), "compared with the result of e2fsck");
    }
}

#[test]
fn a_revoked_block_is_not_replayed() {
    let place = Place::new();
    place.write("data", vec![b'd'; 4096]);
    let image = place.image("a", "16M", &["-b", "1024"]);
    let bytes = fs::read(&image).unwrap();
    let block = bytes.chunks(1024).position(|block| block.iter().all(|byte| *byte == b'd')).unwrap();
    let other = place.path("other");
    fs::write(&other, [b'x'; 1024]).unwrap();
    let write = format!("jw -b {block} {}\n", other.display());
    let written = place.changed(&image, "written", &format!("jo\n{write}jc\n"));
    assert_eq!(lines(&diff(&image, &written)), ["M /data content"]);
    let revoked = place.changed(&image, "revoked", &format!("jo\n{write}jw -r {block}\njc\n"));
    assert!(diff(&image, &revoked).entries.is_empty());
    let again = place.changed(&image, "again", &format!("jo\n{write}jw -r {block}\n{write}jc\n"));
    assert_eq!(lines(&diff(&image, &again)), ["M /data content"]);
}

#[test]
fn an_unsupported_journal_is_rejected_by_name() {
    let place = Place::new();
    let (image, _, dirty) = journalled(&place, &["-b", "1024"], "jo");
    let mut bytes = fs::read(&dirty).unwrap();
    let superblock = bytes.windows(8).position(|part| part == [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4]).unwrap();
    bytes[superblock + 0x2b] |= 0x20;
    fs::write(&dirty, bytes).unwrap();
    let (one, other) = (PlainFile::open(&image), PlainFile::open(&dirty));
    let error = compare(&one, &other, &Options::default()).unwrap_err();
    assert!(matches!(error, DiffError::After(Ext4Error::NeedsRecovery { .. })), "{error:?}");
}
