//! Detection of renames.

use std::fs;

use crate::image::{Place, diff, lines};

fn place() -> Place {
    let place = Place::new();
    for path in ["dir/one", "dir/two", "dir/sub/three", "other/four", "five"] {
        place.write(path, path);
    }
    place
}

/// debugfs has no rename. A link and an unlink have the same effect, as neither changes the link count.
fn rename(from: &str, to: &str) -> String {
    format!("ln {from} {to}\nunlink {from}\n")
}

#[test]
fn a_renamed_file_is_one_change() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let after = place.changed(&image, "b", &rename("/five", "/other/cinq"));
    let changes = diff(&image, &after);
    assert_eq!(lines(&changes), ["R /five > /other/cinq"]);
    assert_eq!((changes.totals.renamed, changes.totals.bytes_added), (1, 0));
}

#[test]
fn a_renamed_directory_is_one_change_plus_the_differences_below_it() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let plain = place.changed(&image, "plain", &rename("/dir", "/other/moved"));
    assert_eq!(lines(&diff(&image, &plain)), ["R /dir > /other/moved"]);
    let commands = rename("/dir", "/other/moved")
        + &rename("/other/moved/two", "/zwei")
        + "rm /other/moved/one\nsif /other/moved/sub/three mode 0100600\nsif /other/moved uid 7\n\
           symlink /other/moved/link target\n";
    let after = place.changed(&image, "b", &commands);
    assert_eq!(
        lines(&diff(&image, &after)),
        [
            "- /dir/one",
            "R /dir > /other/moved owner",
            "+ /other/moved/link",
            "M /other/moved/sub/three mode",
            "R /dir/two > /zwei",
        ]
    );
}

#[test]
fn a_file_can_move_into_a_new_directory_and_out_of_a_removed_one() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let commands = "mkdir /fresh\n".to_owned()
        + &rename("/dir/sub/three", "/fresh/drei")
        + "rmdir /dir/sub\n"
        + &rename("/other/four", "/fresh/four")
        + "rmdir /other\n";
    let after = place.changed(&image, "b", &commands);
    assert_eq!(
        lines(&diff(&image, &after)),
        [
            "- /dir/sub",
            "+ /fresh",
            "R /dir/sub/three > /fresh/drei",
            "R /other/four > /fresh/four",
            "- /other",
        ]
    );
}

#[test]
fn another_name_for_an_existing_file_is_not_a_rename() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    let linked = place.changed(&image, "b", "ln /five /six\nsif /five links_count 2\n");
    assert_eq!(lines(&diff(&image, &linked)), ["+ /six"]);
    let moved = place.changed(&linked, "c", &rename("/six", "/seven"));
    assert_eq!(lines(&diff(&linked, &moved)), ["R /six > /seven"]);
    assert_eq!(lines(&diff(&linked, &image)), ["- /six"]);
}

#[test]
fn a_reused_inode_is_not_a_rename() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    for reborn in ["sif /cinq generation 77\n", "sif /cinq crtime 20200101\n"] {
        let after = place.changed(&image, "b", &(rename("/five", "/cinq") + reborn));
        assert_eq!(lines(&diff(&image, &after)), ["+ /cinq", "- /five"]);
    }
}

#[test]
fn equal_inodes_of_unrelated_file_systems_are_not_a_rename() {
    let place = place();
    let image = place.image("a", "16M", &[]);
    fs::rename(place.tree().join("five"), place.tree().join("cinq")).unwrap();
    let after = place.image("b", "16M", &[]);
    assert_eq!(lines(&diff(&image, &after)), ["+ /cinq", "- /five"]);
}
