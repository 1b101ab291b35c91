//! Frozen samples: what earlier versions wrote is read, and what is written now is the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agentiso_store::{
    Attributes, Builder, Content, Directory, DirectoryObject, Entry, File, Footer, LinkGroup, Meta, Node,
    ObjectId, ObjectKind, Objects, Options, Page, Recipe, Root, StatCache, Store, StoreError, Time, TreeId,
    lookup,
};
use proptest::prelude::*;

use crate::support::*;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

/// Compares bytes with a sample; writes it if asked to, for a new format.
fn frozen(name: &str, bytes: &[u8]) {
    let path = samples().join(name);
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::create_dir_all(samples()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), bytes, "{name} is not written as it was");
}

/// A directory with every kind of entry and every optional field.
fn directory() -> Directory {
    let id = |byte: u8| ObjectId::from_bytes([byte; 32]);
    let meta = Meta {
        mode: 0o4755,
        uid: 1000,
        gid: 70_000,
        mtime: Time { seconds: -5, nanos: 999_999_999 },
        attributes: Some(id(9)),
    };
    let file = |content, size, link| Node::File(File { meta, size, content, link });
    let entry = |name: &[u8], node| Entry { name: name.into(), node };
    Directory {
        meta,
        entries: vec![
            entry(b"a-directory", Node::Directory(TreeId(id(1)))),
            entry(b"blob", file(Content::Blob(id(2)), 300, None)),
            entry(b"chunked", file(Content::Chunked(id(3)), 1 << 40, Some(LinkGroup(7)))),
            entry(b"empty", file(Content::Empty, 0, None)),
            entry(b"fifo", Node::Fifo { meta: Meta::default() }),
            entry(b"symlink", Node::Symlink { meta: Meta::default(), target: (*b"../x").into() }),
            entry(b"\xff\n", file(Content::Empty, 0, None)),
        ],
    }
}

#[test]
fn objects_are_written_as_they_were() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let expected = directory();
    let mut builder = Builder::new(expected.meta);
    let root = builder.root();
    for entry in expected.entries.iter().rev() {
        builder.add(root, &entry.name, entry.node.clone()).unwrap();
    }
    let tree = builder.finish(&session).unwrap();
    let bytes = session.object(ObjectKind::Directory, &tree.0).unwrap();
    frozen("directory-1.bin", &bytes);
    assert_eq!(DirectoryObject::decode(&bytes).unwrap(), DirectoryObject::Whole(expected));

    let mut recipe = Recipe::default();
    recipe.push_data(ObjectId::from_bytes([1; 32]));
    recipe.push_hole(300);
    recipe.push_data(ObjectId::from_bytes([2; 32]));
    let recipe = recipe.finish(302 * (256 << 10) - 100).unwrap();
    frozen("recipe-1.bin", &recipe.encode());
    assert_eq!(Recipe::decode(&recipe.encode()).unwrap(), recipe);

    let attributes =
        Attributes(BTreeMap::from([(b"user.a".to_vec(), vec![0, 1]), (b"user.b".to_vec(), vec![])]));
    frozen("attributes-1.bin", &attributes.encode().unwrap());
    assert_eq!(Attributes::decode(&attributes.encode().unwrap()).unwrap(), attributes);
}

#[test]
fn large_directories_are_paged_as_they_were() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let mut builder = Builder::new(Meta::default());
    let root = builder.root();
    for number in 0..2000 {
        builder
            .add(root, format!("name-{number:05}").as_bytes(), Node::Fifo { meta: Meta::default() })
            .unwrap();
    }
    let tree = builder.finish(&session).unwrap();
    let bytes = session.object(ObjectKind::Directory, &tree.0).unwrap();
    frozen("paged-1.bin", &bytes);
    let DirectoryObject::Paged { pages, count, .. } = DirectoryObject::decode(&bytes).unwrap() else {
        panic!()
    };
    assert_eq!(count, 2000);
    let page = session.object(ObjectKind::Page, &pages[1].id).unwrap();
    frozen("page-1.bin", &page);
    let last = Page::decode(&page).unwrap().0.pop().unwrap();
    assert_eq!(last.name, pages[1].last);
}

/// A whole store, as the first version wrote it. Compression may change; what is read may not.
#[test]
fn a_store_of_version_1_is_read() {
    let sample = samples().join("store-1");
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        let _ = fs::remove_dir_all(&sample);
        let store = Store::open_or_create(&sample, Options::default()).unwrap();
        let session = store.begin().unwrap();
        let long = "line\n".repeat(200_000);
        let tree = tree(&session, &[("docs/a", "first"), ("docs/b", &long)]);
        let lease = session.commit(&[Root::Tree(tree)]).unwrap();
        store.pin("sample", Root::Tree(tree)).unwrap();
        drop(lease);
        for empty in ["locks", "tmp", "leases"] {
            fs::remove_dir_all(sample.join(empty)).unwrap();
        }
    }
    let place = Place::new();
    for name in ["format", "pins/sample"] {
        fs::copy(sample.join(name), place.store.root().join(name)).unwrap();
    }
    for pack in fs::read_dir(sample.join("packs")).unwrap() {
        let pack = pack.unwrap();
        fs::copy(pack.path(), place.store.root().join("packs").join(pack.file_name())).unwrap();
    }
    let store = place.reopened();
    let pins = store.pins().unwrap();
    let Some((name, Root::Tree(tree))) = pins.first() else { panic!("{pins:?}") };
    assert_eq!(name, "sample");
    assert_eq!(texts(&store, *tree).get("/docs/a").unwrap(), "first");
    let Some(Node::File(file)) = lookup(&store, *tree, &path("docs/b")).unwrap() else { panic!() };
    assert_eq!(file.size, 1_000_000);
    assert!(agentiso_store::check(&store, &[("pin".to_owned(), Root::Tree(*tree))]).unwrap().is_clean());
}

#[test]
fn a_newer_store_is_not_touched() {
    let place = Place::new();
    fs::write(place.store.root().join("format"), "agentiso store 2\n").unwrap();
    let error = Store::open(place.store.root(), Options::default()).unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 2, known: 1, .. }), "{error:?}");
    fs::write(place.store.root().join("format"), "something else").unwrap();
    let error = Store::open_or_create(place.store.root(), Options::default()).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    write(&place.path("other/file"), "x");
    let error = Store::open_or_create(&place.path("other"), Options::default()).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    assert!(!place.path("other/packs").exists());
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0_usize..5) {
        let magics: [&[u8]; 5] = [b"AiTD\x01", b"AiTP\x01", b"AiTR\x01", b"AiTX\x01", b"AiSSTAT1"];
        let bytes = [magics[magic], &bytes].concat();
        let _ = DirectoryObject::decode(&bytes);
        let _ = Page::decode(&bytes);
        let _ = Recipe::decode(&bytes);
        let _ = Attributes::decode(&bytes);
        let _ = StatCache::decode(&bytes);
        let _ = Footer::decode(&bytes, bytes.len() as u64);
    }

    #[test]
    fn a_changed_byte_of_a_directory_is_refused_or_another_directory(at in 0_usize..400, bit in 0_u8..8) {
        let mut bytes = fs::read(samples().join("directory-1.bin")).unwrap();
        let Some(byte) = bytes.get_mut(at) else { return Ok(()) };
        *byte ^= 1 << bit;
        if let Ok(decoded) = DirectoryObject::decode(&bytes) {
            prop_assert_ne!(decoded, DirectoryObject::Whole(directory()));
        }
    }
}
