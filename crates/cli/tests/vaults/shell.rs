//! The interactive shell.

use crate::place::Place;

#[test]
fn lines_are_commands() {
    let place = Place::with_vault();
    let input = b"write '/a b.txt' \"hello\"\ncat '/a b.txt'\nvault create other\nuse other\nls\ncat '/a b.txt'\nexit\nls\n";
    let done = place.avfs_with_input(&["--vault", "work", "shell", "--no-history"], input);
    assert!(done.stdout.contains("hello"), "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("file_not_found"), "{}", done.stderr);
    assert_eq!(done.code, 1, "the exit code is that of the last command");
}
