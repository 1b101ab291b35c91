//! Runs the `console` blocks of README and the documentation line by line on real machines.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::common::text;
use crate::place::Place;

/// Lines that are expected to fail: the guest cannot remove files that the kernel keeps busy.
const FAILS: &str = "--no-preserve-root";
/// Lines that need a terminal.
const INTERACTIVE: &str = "--tty";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The commands in a page's `console` blocks. A line that ends with a backslash continues on the next one.
fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(top().join(page)).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    let blocks = blocks.map(|block| block.replace("\\\n", " "));
    blocks
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| line.strip_prefix("$ ").map(str::to_owned))
        .collect()
}

/// Whether a command sets a shell variable for later ones.
fn is_assignment(command: &str) -> bool {
    let name = command.split('=').next().unwrap();
    name.len() < command.len() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Runs every command of a page in order, as a reader would type them.
fn follow(place: &Place, page: &str) {
    let program = PathBuf::from(place.command(&[]).get_program());
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".config/fish/completions")).unwrap();
    let commands = commands(page);
    assert!(!commands.is_empty(), "{page} has no console blocks");
    let mut variables = String::new();
    for command in commands.iter().filter(|command| !command.contains(INTERACTIVE)) {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{variables}{command}")]).current_dir(top()).stdin(Stdio::null());
        shell.env("PATH", &path).env("AGENTISO_HOME", place.path()).env("HOME", home.path());
        let output = shell.output().unwrap();
        let done = output.status.success() || command.contains(FAILS) && output.status.code() == Some(1);
        assert!(done, "{page}: {command}\n{}{}", text(&output.stdout), text(&output.stderr));
        if is_assignment(command) {
            variables = format!("{variables}{command}\n");
        }
    }
}

#[test]
fn the_commands_in_the_readme_work() {
    follow(&Place::new(), "README.md");
}

#[test]
fn the_commands_in_the_guide_work() {
    follow(&Place::new(), "docs/guide.md");
}

#[test]
fn the_commands_in_the_page_on_snapshots_work() {
    follow(&Place::new(), "docs/snapshots.md");
}

#[test]
fn the_hook_in_the_page_on_forks_works() {
    follow(&Place::new(), "docs/fork-correctness.md");
}

#[test]
fn the_requests_in_the_page_on_clients_work() {
    follow(&Place::new(), "docs/clients.md");
}

#[test]
fn the_commands_in_the_page_on_backups_work() {
    let place = Place::with("web");
    follow(&place, "docs/backup.md");
    assert_eq!(place.names(), ["web"]);
}

#[test]
fn the_commands_in_the_page_on_images_work() {
    // The page creates and removes images, so only the default image is shared.
    let place = Place::without_images();
    let images = place.path().join("images");
    fs::create_dir(&images).unwrap();
    let prepared = PathBuf::from(env::var_os("AGENTISO_TEST_HOME").unwrap()).join("images/debian");
    symlink(prepared, images.join("debian")).unwrap();
    follow(&place, "docs/images.md");
}

#[test]
fn the_commands_in_the_page_on_networking_work() {
    follow(&Place::new(), "docs/networking.md");
}

#[test]
fn the_commands_in_the_page_on_the_command_line_work() {
    let place = Place::with("web");
    place.text(&["fork", "web", "--name", "copy"]);
    place.sh("web", "echo hello > /root/notes.txt");
    follow(&place, "docs/command-line.md");
    assert_eq!(place.sh("copy", "cat /root/notes.txt"), "hello");
}
