//! A comparison of many files.

use std::fs;
use std::path::Path;

use agentiso_diff::{Options, compare};
use agentiso_testing::disk_view::{Overlaid, PlainFile};

use crate::image::{Place, lines, make};

const DIRECTORIES: usize = 1000;
const FILES: usize = 100;

fn crowd(tree: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = tree.join(format!("dir{directory:03}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..FILES {
            // Most are empty: creating the image takes most of the time.
            let content = if file == 0 { "content" } else { "" };
            fs::write(directory.join(format!("file{file:02}")), content).unwrap();
        }
    }
}

#[test]
fn three_changes_among_a_hundred_thousand_files_are_found() {
    // In memory if possible, because creating so many files on a disk is slow.
    let place = Place::in_memory();
    crowd(&place.tree());
    let image = place.path("a");
    make(&place.tree(), &image, "64M", &["-b", "4096", "-N", "102000", "-O", "^has_journal"]);
    let after = place.changed(
        &image,
        "b",
        "sif /dir042/file77 mode 0100600\nrm /dir007/file23\nsymlink /dir099/new target\n",
    );
    let expected = ["- /dir007/file23", "M /dir042/file77 mode", "+ /dir099/new"];
    let (base, other) = (PlainFile::open(&image), PlainFile::open_unknown(&after));
    let shared = Overlaid::between(&base, &other);
    let changes = compare(&base, &shared, &Options::default()).unwrap();
    assert_eq!(lines(&changes), expected);
    let changes = compare(&base, &other, &Options::default()).unwrap();
    assert_eq!(lines(&changes), expected);
}
