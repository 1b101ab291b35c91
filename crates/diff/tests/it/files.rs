//! Reading one file.

use std::os::unix::fs::symlink;

use agentiso_core::Explain;
use agentiso_diff::{Ext4Error, FileContent, read_file};
use agentiso_testing::disk_view::PlainFile;

use crate::image::Place;

#[test]
fn a_file_is_read_up_to_the_limit_and_a_link_is_not_followed() {
    let place = Place::new();
    let content: Vec<u8> = (0..70_000u32).flat_map(u32::to_le_bytes).collect();
    place.write("etc/data", &content);
    symlink("/etc/data", place.tree().join("link")).unwrap();
    symlink("etc", place.tree().join("way")).unwrap();
    for options in [&[][..], &["-O", "^extents,^64bit"], &["-O", "inline_data"]] {
        let image = place.image("a", "16M", options);
        let view = PlainFile::open(&image);
        let size = content.len() as u64;
        let whole = read_file(&view, b"/etc/data", 1 << 20).unwrap();
        assert_eq!(whole, FileContent::File { bytes: content.clone(), size });
        let part = read_file(&view, b"/etc/data", 5000).unwrap();
        assert!(part.is_truncated());
        assert_eq!(part, FileContent::File { bytes: content[..5000].to_vec(), size });
        let link = read_file(&view, b"/link", 10).unwrap();
        assert_eq!(link, FileContent::Symlink { target: b"/etc/data".to_vec() });
        let through = read_file(&view, b"/way/data", 10).unwrap_err();
        assert!(matches!(through, Ext4Error::WrongType { found: "a symbolic link", .. }), "{through:?}");
        assert!(through.remedy().unwrap().contains("not followed"));
        let directory = read_file(&view, b"/etc", 10).unwrap_err();
        assert_eq!(directory.to_string(), "/etc is a directory, not a file");
        assert!(matches!(read_file(&view, b"/etc/none", 10), Err(Ext4Error::NotFound { .. })));
        assert!(matches!(read_file(&view, b"/etc/../etc/data", 10), Err(Ext4Error::NotFound { .. })));
        std::fs::remove_file(image).unwrap();
    }
}
