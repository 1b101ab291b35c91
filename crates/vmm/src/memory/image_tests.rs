//! Memory images, written and read back through files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Mutex;

use agentiso_core::MemoryId;
use proptest::prelude::*;

use super::files::{DEVICE, MAP, MemoryFiles, PACK};
use super::pages::{PAGE, Pages, Run};
use super::reader::Target;
use super::writer::{ImageWriter, Written};

const GUEST_BYTES: u64 = 1 << 20;

/// A guest's memory: the number of each page that was put into it, and the byte the page is full of.
#[derive(Default)]
struct Guest(Mutex<BTreeMap<u64, u8>>);

impl Target for Guest {
    fn put(&self, pages: &Pages) -> io::Result<()> {
        for (number, page) in pages.iter() {
            assert!(page.iter().all(|&byte| byte == page[0]));
            self.0.lock().unwrap().insert(number, page[0]);
        }
        Ok(())
    }
}

struct Place {
    dir: tempfile::TempDir,
    files: MemoryFiles,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = MemoryFiles::new(dir.path().to_owned());
        Self { dir, files }
    }

    fn file(&self, id: MemoryId, name: &str) -> PathBuf {
        self.dir.path().join(id.to_string()).join(name)
    }

    fn writer(&self, id: MemoryId, parent: Option<MemoryId>) -> ImageWriter {
        let parent = parent.map(|parent| self.files.open(parent).unwrap());
        ImageWriter::create(&self.files, id, GUEST_BYTES, parent).unwrap()
    }

    fn write(&self, content: &BTreeMap<u64, u8>, parent: Option<MemoryId>) -> (MemoryId, Written) {
        let id = id();
        let mut writer = self.writer(id, parent);
        put(&mut writer, content);
        let (_, written) = writer.finish(b"device", &runs(content.keys())).unwrap();
        (id, written)
    }

    fn read(&self, id: MemoryId) -> io::Result<BTreeMap<u64, u8>> {
        let (image, guest) = (self.files.open(id)?, Guest::default());
        assert_eq!(image.device()?, b"device");
        self.files.put_into(&image, &guest)?;
        Ok(guest.0.into_inner().unwrap())
    }

    /// Flips one bit of a file.
    fn flip(&self, id: MemoryId, name: &str, at: u64) {
        let file = fs::File::options().read(true).write(true).open(self.file(id, name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }
}

fn id() -> MemoryId {
    MemoryId::from_uuid(uuid::Uuid::now_v7())
}

fn runs<'a>(pages: impl Iterator<Item = &'a u64>) -> Vec<Run> {
    pages.map(|&first| Run { first, count: 1 }).collect()
}

fn put(writer: &mut ImageWriter, content: &BTreeMap<u64, u8>) {
    let bytes: Vec<u8> = content.values().flat_map(|&byte| [byte; PAGE]).collect();
    writer.put(&runs(content.keys()), &bytes).unwrap();
}

fn filled(pages: std::ops::Range<u64>, byte: u8) -> BTreeMap<u64, u8> {
    pages.map(|page| (page, byte)).collect()
}

#[test]
fn an_image_holds_only_what_its_parent_does_not() {
    let place = Place::new();
    let first = filled(0..100, 1);
    let mut second = first.clone();
    second.extend([(7, 2), (8, 0), (200, 3)]);
    let (a, wrote_a) = place.write(&first, None);
    let (b, wrote_b) = place.write(&second, Some(a));
    assert!(wrote_a.bytes >= 100 * PAGE as u64);
    assert!(wrote_b.bytes < 4 * PAGE as u64, "{wrote_b:?}");
    assert_eq!((place.read(a).unwrap(), place.read(b).unwrap()), (first, second));
}

#[test]
fn any_image_can_go_and_the_others_stay_whole() {
    let place = Place::new();
    let first = filled(0..64, 1);
    let mut second = first.clone();
    second.extend(filled(0..32, 2));
    let (a, _) = place.write(&first, None);
    let (b, _) = place.write(&second, Some(a));
    let map = place.files.open(b).unwrap().map;
    let before = place.files.freed_by_removal(a, std::slice::from_ref(&map)).unwrap();
    assert!((32 * PAGE as u64..33 * PAGE as u64 + 16384).contains(&before), "{before}");
    place.files.remove(a, std::slice::from_ref(&map)).unwrap();
    assert_eq!(place.read(b).unwrap(), second);
    let pack = fs::metadata(place.file(a, PACK)).unwrap();
    assert_eq!(pack.blocks() * 512, 32 * PAGE as u64);
    assert!(place.files.open(a).is_err());
    place.files.remove(b, &[]).unwrap();
    place.files.remove(a, &[]).unwrap();
    assert!(place.files.list().unwrap().is_empty());
}

#[test]
fn an_image_that_could_not_be_written_leaves_nothing() {
    let place = Place::new();
    let (a, _) = place.write(&filled(0..1, 1), None);
    fs::write(place.file(a, PACK), b"too short").unwrap();
    let mut writer = place.writer(id(), Some(a));
    assert!(writer.put(&[Run { first: 0, count: 1 }], &[1; PAGE]).is_err());
    drop(writer);
    let writer = place.writer(id(), None);
    assert!(writer.finish(b"", &[Run { first: 3, count: 1 }]).is_err(), "page 3 was never put");
    assert_eq!(place.files.list().unwrap(), [a]);
}

#[test]
fn a_flipped_bit_in_any_file_of_an_image_is_found() {
    let place = Place::new();
    let content = filled(10..90, 5);
    let (parent, _) = place.write(&content, None);
    let (child, _) = place.write(&filled(10..91, 5), Some(parent));
    for (name, at) in [(DEVICE, 2), (PACK, 79 * PAGE as u64 + 11), (MAP, 30)] {
        place.flip(parent, name, at);
        let error = place.read(parent).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}");
        assert!(error.to_string().contains("checksum"), "{name}: {error}");
        // What belongs to the parent alone does not matter to an image that uses its pages.
        assert_eq!(place.read(child).is_err(), name == PACK, "{name}");
        place.flip(parent, name, at);
        assert_eq!(place.read(parent).unwrap(), content, "{name}");
    }
}

#[test]
fn an_image_without_checksums_can_be_read_and_built_upon() {
    let place = Place::new();
    let content = filled(3..40, 9);
    let (old, _) = place.write(&content, None);
    let mut map = place.files.open(old).unwrap().map;
    map.checks = None;
    fs::write(place.file(old, MAP), map.to_bytes()).unwrap();
    assert_eq!(place.read(old).unwrap(), content);
    assert!(!place.files.open(old).unwrap().is_verifiable());
    assert_eq!(place.files.count_unverifiable().unwrap(), 1);

    // The pages it shares with a new image are verified with that one.
    let (new, _) = place.write(&content, Some(old));
    assert!(place.files.open(new).unwrap().is_verifiable());
    assert_eq!(place.files.count_unverifiable().unwrap(), 1);
    place.flip(old, PACK, 5 * PAGE as u64);
    assert_eq!(place.read(new).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_last_content_of_each_page_counts(
        rounds in prop::collection::vec(prop::collection::btree_map(0u64..40, 0u8..4, 0..40), 1..6),
        before in prop::collection::btree_map(0u64..40, 1u8..4, 0..40),
        dropped in prop::collection::btree_set(0u64..40, 0..10),
    ) {
        let place = Place::new();
        let (parent, _) = place.write(&before, None);
        let (new, mut expected) = (id(), BTreeMap::new());
        let mut writer = place.writer(new, Some(parent));
        for round in &rounds {
            put(&mut writer, round);
            expected.extend(round);
        }
        expected.retain(|page, _| !dropped.contains(page));
        let (image, written) = writer.finish(b"device", &runs(expected.keys())).unwrap();
        prop_assert_eq!(written.pages, expected.len() as u64);
        let kept: u64 = image.map.pages_of(new).iter().map(|run| run.count).sum();
        prop_assert_eq!(fs::metadata(place.file(new, PACK)).unwrap().blocks() * 512, kept * PAGE as u64);
        prop_assert_eq!(place.read(new).unwrap(), expected);
    }
}
