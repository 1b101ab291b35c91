//! Each kind of difference.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use agentiso_core::{Code, Explain};
use agentiso_diff::{DiffError, EntryKind, Options, Totals, compare, visit};
use agentiso_testing::disk_view::PlainFile;

use crate::image::{Place, diff, diff_under, lines};

fn place() -> Place {
    let place = Place::new();
    place.write("etc/passwd", "root\n");
    place.write("etc/motd", "hello\n");
    place.write("srv/deep/er/file", "x");
    place.write("big", vec![7; 300_000]);
    symlink("etc/passwd", place.tree().join("short")).unwrap();
    symlink("x".repeat(200), place.tree().join("long")).unwrap();
    place
}

#[test]
fn a_disk_does_not_differ_from_itself() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let view = PlainFile::open(&image);
    assert!(compare(&view, &view, &Options::default()).unwrap().entries.is_empty());
    assert!(diff(&image, &image).entries.is_empty());
}

#[test]
fn each_aspect_is_reported_by_name_and_times_are_ignored() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let base = place.changed(
        &image,
        "base",
        "mknod tty c 5 1\nmknod disk b 8 1\nmknod pipe p\nea_set /etc/motd user.old same\n",
    );
    let after = place.changed(
        &base,
        "b",
        "sif /etc/passwd mode 0100600\n\
         sif /etc/motd uid 1000\n\
         sif /srv/deep gid 70000\n\
         sif /srv/deep/er mtime 20200101\n\
         sif /srv/deep/er/file mtime 20200101\n\
         sif /srv/deep/er/file ctime 20200101\n\
         sif /short block[0] 0x2e2e2e2e\n\
         sif /tty block[0] 0x0502\n\
         sif /disk mode 0020644\n\
         ea_set /big user.note hello\n\
         ea_set /etc/motd user.old changed\n",
    );
    let changes = diff(&base, &after);
    assert_eq!(
        lines(&changes),
        [
            "M /big xattr",
            "M /disk mode type",
            "M /etc/motd owner xattr",
            "M /etc/passwd mode",
            "M /short target",
            "M /srv/deep owner",
            "M /tty device",
        ]
    );
    let deep = changes.entries[5].after.unwrap();
    assert_eq!((deep.kind, deep.gid), (EntryKind::Directory, 70000));
    assert_eq!(changes.totals, Totals { modified: 7, ..Totals::default() });
}

#[test]
fn a_changed_byte_is_found_even_if_the_inode_is_unchanged() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let mut bytes = fs::read(&image).unwrap();
    let block = bytes.chunks(1024).position(|block| block == [7; 1024]).unwrap();
    bytes[block * 1024 + 5000] = 8;
    let copy = place.path("b");
    fs::write(&copy, bytes).unwrap();
    assert_eq!(lines(&diff(&image, &copy)), ["M /big content"]);
}

#[test]
fn a_hole_equals_written_zeros() {
    let place = place();
    let sparse = fs::File::create(place.tree().join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    let image = place.image("a", "16M", &[]);
    let punched = place.changed(&image, "b", "fallocate /sparse 3 9\nfallocate /sparse 4000 4005\n");
    assert!(diff(&image, &punched).entries.is_empty());
    let longer = place.changed(&punched, "c", "sif /sparse size 5242881\n");
    assert_eq!(lines(&diff(&image, &longer)), ["M /sparse content"]);
    let emptied = place.changed(&image, "d", "punch /big 100 120\n");
    assert_eq!(lines(&diff(&image, &emptied)), ["M /big content"]);
}

#[test]
fn the_contents_of_a_directory_that_becomes_a_file_are_removed() {
    let place = place();
    let image = place.image("a", "16M", &["-U", "clear"]);
    fs::remove_dir_all(place.tree().join("srv")).unwrap();
    place.write("srv", "now a file");
    let after = place.image("b", "16M", &[]);
    let changes = diff(&image, &after);
    assert_eq!(lines(&changes), ["M /srv mode type", "- /srv/deep", "- /srv/deep/er", "- /srv/deep/er/file"]);
    assert_eq!((changes.totals.bytes_added, changes.totals.bytes_removed), (10, 1));
    let back = diff(&after, &image);
    assert_eq!(lines(&back)[1..], ["+ /srv/deep", "+ /srv/deep/er", "+ /srv/deep/er/file"]);
}

#[test]
fn only_the_requested_part_is_compared() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let after = place.changed(&image, "b", "sif /big uid 5\nsif /srv/deep uid 5\nrm /etc/motd\n");
    assert_eq!(lines(&diff_under(&image, &after, Some("/srv"))), ["M /srv/deep owner"]);
    assert_eq!(lines(&diff_under(&image, &after, Some("srv//deep/."))), ["M /srv/deep owner"]);
    assert_eq!(lines(&diff_under(&image, &after, Some("/etc/motd"))), ["- /etc/motd"]);
    assert_eq!(lines(&diff_under(&after, &image, Some("/etc/motd"))), ["+ /etc/motd"]);
    assert_eq!(diff_under(&image, &after, Some("/")).entries.len(), 3);
    let view = PlainFile::open(&image);
    for missing in ["/nowhere", "/etc/passwd/x", "/short/x", "/.."] {
        let options = Options { under: Some(missing.into()), ..Options::default() };
        let error = compare(&view, &view, &options).unwrap_err();
        assert!(matches!(error, DiffError::NotFound { .. }), "{missing}: {error:?}");
        assert_eq!(error.code(), Code::InvalidArgument);
    }
}

#[test]
fn a_visitor_can_stop_the_comparison() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let after = place.changed(&image, "b", "sif /big uid 5\nsif /etc uid 5\nrm /etc/motd\n");
    let (one, other) = (PlainFile::open_unknown(&image), PlainFile::open_unknown(&after));
    let mut seen = 0;
    let totals = visit(&one, &other, &Options::default(), &mut |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((seen, totals.unwrap().modified), (2, 2));
}

#[test]
fn a_file_system_that_grew_can_be_compared() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let after = place.changed(&image, "b", "sif /big uid 5\n");
    fs::File::options().write(true).open(&after).unwrap().set_len(400 << 20).unwrap();
    crate::image::run(std::process::Command::new("e2fsck").args(["-fy"]).arg(&after), None);
    crate::image::run(std::process::Command::new("resize2fs").arg(&after), None);
    assert_eq!(lines(&diff(&image, &after)), ["M /big owner"]);
}

#[test]
fn attribute_values_in_separate_inodes_are_compared() {
    let place = place();
    let image = place.image("a", "16M", &["-O", "ea_inode"]);
    let value = place.path("value");
    let with = |byte: u8| {
        // The maximum that debugfs accepts, and too long for an inode of 256 bytes.
        let mut bytes = vec![b'v'; 1024];
        bytes[1000] = byte;
        fs::write(&value, bytes).unwrap();
        let commands = format!("ea_set -f {} /big user.large\n", value.display());
        place.changed(&image, &format!("with-{byte}"), &commands)
    };
    let (one, other) = (with(b'a'), with(b'b'));
    assert_eq!(lines(&diff(&image, &one)), ["M /big xattr"]);
    assert_eq!(lines(&diff(&one, &other)), ["M /big xattr"]);
    assert!(diff(&one, &one).entries.is_empty());
}
