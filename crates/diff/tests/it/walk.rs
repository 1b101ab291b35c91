//! Listing all files of a disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, symlink};

use agentiso_diff::{EntryKind, Ext4Error, Found, WalkError, walk};
use agentiso_testing::disk_view::PlainFile;

use crate::image::Place;

type Seen = BTreeMap<String, (EntryKind, u32, Vec<u8>, Vec<u8>)>;

fn all(image: &std::path::Path) -> Result<Seen, WalkError> {
    let mut seen = Seen::new();
    walk(&PlainFile::open(image), 1000, &mut |found: Found<'_>, content: &mut dyn Read| {
        let path = String::from_utf8_lossy(found.path).into_owned();
        if let Some((parent, _)) = path.rsplit_once('/') {
            assert!(seen.contains_key(parent), "{path} came before its parent");
        }
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        seen.insert(path, (found.info.kind, found.inode, found.target, bytes));
        Ok(())
    })?;
    Ok(seen)
}

#[test]
fn all_files_are_listed_with_their_content_and_holes_read_as_zeros() {
    let place = Place::new();
    let content: Vec<u8> = (0..90_000u32).flat_map(u32::to_le_bytes).collect();
    place.write("etc/data", &content);
    place.write("etc/empty", "");
    place.write("small", "few bytes");
    fs::hard_link(place.tree().join("etc/data"), place.tree().join("same")).unwrap();
    symlink("/etc/data", place.tree().join("link")).unwrap();
    symlink("x".repeat(200), place.tree().join("long")).unwrap();
    let sparse = fs::File::create(place.tree().join("sparse")).unwrap();
    sparse.set_len(700_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 699_997).unwrap();
    fs::set_permissions(place.tree().join("small"), fs::Permissions::from_mode(0o4750)).unwrap();
    for options in [&[][..], &["-O", "^extents,^64bit"], &["-O", "inline_data"]] {
        let image = place.image("a", "16M", options);
        let seen = all(&image).unwrap();
        let names: Vec<&str> = seen.keys().map(String::as_str).collect();
        let expected =
            ["", "etc", "etc/data", "etc/empty", "link", "long", "lost+found", "same", "small", "sparse"];
        assert_eq!(names, expected);
        assert_eq!(seen["etc/data"].3, content);
        assert_eq!((seen["etc/data"].1, &seen["same"].3), (seen["same"].1, &content));
        assert_eq!((seen["link"].0, seen["link"].2.as_slice()), (EntryKind::Symlink, &b"/etc/data"[..]));
        assert_eq!(seen["long"].2.len(), 200);
        assert_eq!((seen["sparse"].3.len(), &seen["sparse"].3[699_997..]), (700_000, &b"end"[..]));
        assert!(seen["sparse"].3[..699_997].iter().all(|byte| *byte == 0));
        assert_eq!(seen["small"].3, b"few bytes");
        fs::remove_file(image).unwrap();
    }
}

#[test]
fn extended_attributes_have_full_names() {
    let place = Place::new();
    place.write("file", "x");
    let image = place.image("a", "16M", &[]);
    let changed =
        place.changed(&image, "b", "ea_set /file user.colour blue\nea_set /file trusted.mark yes\n");
    let mut found = Vec::new();
    walk(&PlainFile::open(&changed), 100, &mut |one, _| {
        if one.path == b"file" {
            found = one.xattrs;
        }
        Ok(())
    })
    .unwrap();
    found.sort();
    let expected = [(b"trusted.mark".to_vec(), b"yes".to_vec()), (b"user.colour".to_vec(), b"blue".to_vec())];
    assert_eq!(found, expected);
}

#[test]
fn a_directory_that_contains_itself_does_not_loop() {
    let place = Place::new();
    place.write("a/b/file", "x");
    let image = place.image("a", "16M", &[]);
    let looped = place.changed(&image, "b", "ln /a /a/b/again\n");
    let error = all(&looped).unwrap_err();
    assert!(matches!(error, WalkError::Disk(Ext4Error::TooLarge { .. })), "{error:?}");
}

#[test]
fn a_visitor_error_ends_the_walk() {
    let place = Place::new();
    place.write("file", "x");
    let image = place.image("a", "16M", &[]);
    let mut visits = 0;
    let ended = walk(&PlainFile::open(&image), 100, &mut |_, _| {
        visits += 1;
        Err(io::Error::other("enough"))
    });
    assert!(matches!(ended, Err(WalkError::Visitor(_))));
    assert_eq!(visits, 1);
}
