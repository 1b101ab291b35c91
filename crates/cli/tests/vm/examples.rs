//! What README and the documentation show in `console` blocks, done line by line on real machines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::common::text;
use crate::place::Place;

/// Lines that end with an error because that is what they show: the guest cannot remove what the kernel keeps busy.
const FAILS: &str = "--no-preserve-root";
/// Lines that need a terminal.
const INTERACTIVE: &str = "--tty";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The lines of a page's `console` blocks.
fn lines(page: &str) -> Vec<String> {
    let text = fs::read_to_string(top().join(page)).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks
        .flat_map(|block| block.lines())
        .filter_map(|line| line.strip_prefix("$ "))
        .map(str::to_owned)
        .collect()
}

/// Runs every line of a page as a person would who reads it from top to bottom.
fn follow(place: &Place, page: &str) {
    let program = PathBuf::from(place.command(&[]).get_program());
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".config/fish/completions")).unwrap();
    let lines = lines(page);
    assert!(!lines.is_empty(), "{page} shows nothing");
    for line in lines.iter().filter(|line| !line.contains(INTERACTIVE)) {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(top()).stdin(Stdio::null());
        shell.env("PATH", &path).env("AGENTISO_HOME", place.path()).env("HOME", home.path());
        let output = shell.output().unwrap();
        let done = output.status.success() || line.contains(FAILS) && output.status.code() == Some(1);
        assert!(done, "{page}: {line}\n{}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn the_session_of_the_readme_works() {
    follow(&Place::new(), "README.md");
}

#[test]
fn the_session_of_the_page_on_snapshots_works() {
    follow(&Place::new(), "docs/snapshots.md");
}

#[test]
fn the_lines_of_the_page_on_the_command_line_work() {
    let place = Place::with("web");
    place.text(&["fork", "web", "--name", "copy"]);
    place.sh("web", "echo hello > /root/notes.txt");
    follow(&place, "docs/command-line.md");
    assert_eq!(place.sh("copy", "cat /root/notes.txt"), "hello");
}
