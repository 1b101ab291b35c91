//! Creates and changes images without root.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_core::ports::DiskView;
use agentiso_diff::{Aspect, Change, ChangeKind, Changes, Options, compare};
use agentiso_testing::disk_view::{Overlaid, PlainFile};
use tempfile::TempDir;

/// A directory for a tree and the images made from it.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.tree()).unwrap();
        place
    }

    /// Creates it in memory (tmpfs) if possible.
    pub fn in_memory() -> Self {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return Self::new() };
        let place = Self { dir };
        fs::create_dir(place.tree()).unwrap();
        place
    }

    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.tree().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Creates an image of the tree.
    pub fn image(&self, name: &str, size: &str, options: &[&str]) -> PathBuf {
        let image = self.path(name);
        make(&self.tree(), &image, size, options);
        image
    }

    /// Copies an image and changes it with debugfs commands.
    pub fn changed(&self, image: &Path, name: &str, commands: &str) -> PathBuf {
        let copy = self.path(name);
        fs::copy(image, &copy).unwrap();
        debugfs(&copy, commands);
        copy
    }
}

pub fn make(tree: &Path, image: &Path, size: &str, options: &[&str]) {
    let mut command = Command::new("mke2fs");
    command.args(["-t", "ext4", "-F", "-q", "-m", "0", "-d"]).arg(tree);
    let complaints = run(command.args(options).arg(image).arg(size), None);
    assert!(image.exists() && !complaints.contains("mke2fs:"), "{command:?}: {complaints}");
}

/// Whether e2fsck finds no errors in an image.
pub fn is_sound(image: &Path) -> bool {
    Command::new("e2fsck").args(["-f", "-n"]).arg(image).output().unwrap().status.success()
}

/// Runs debugfs commands. It continues after errors, so the output must not contain any.
pub fn debugfs(image: &Path, commands: &str) {
    let output = run(Command::new("debugfs").args(["-w", "-f", "-"]).arg(image), Some(commands));
    let complaints: Vec<&str> = output.lines().filter(|line| !line.starts_with("debugfs")).collect();
    let harmless = |line: &&str| {
        line.is_empty() || ["Allocated inode", "Setting csum"].iter().any(|start| line.starts_with(start))
    };
    assert!(complaints.iter().all(harmless), "{commands}\n{complaints:#?}");
}

pub fn run(command: &mut Command, input: Option<&str>) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.unwrap_or_default().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{command:?}: {text}");
    text
}

/// Compares two images with and without shared blocks, and asserts that the results agree.
pub fn diff(before: &Path, after: &Path) -> Changes {
    diff_under(before, after, None)
}

pub fn diff_under(before: &Path, after: &Path, under: Option<&str>) -> Changes {
    let options = Options { under: under.map(|path| path.as_bytes().to_vec()), ..Options::default() };
    let (one, other) = (PlainFile::open_unknown(before), PlainFile::open_unknown(after));
    let changes = compare(&one, &other, &options).unwrap();
    if one.size() == other.size() {
        let base = PlainFile::open(before);
        let overlaid = Overlaid::between(&base, &other);
        assert_eq!(compare(&base, &overlaid, &options).unwrap(), changes, "with shared blocks");
    }
    changes
}

/// Formats a change as one line: `+ path`, `- path`, `M path aspects`, `R from > path aspects`.
pub fn line(change: &Change) -> String {
    let text = |path: &[u8]| path.escape_ascii().to_string();
    let aspects = |aspects: &std::collections::BTreeSet<Aspect>| -> String {
        aspects.iter().map(|aspect| format!(" {aspect:?}").to_lowercase()).collect()
    };
    let path = text(&change.path);
    match &change.kind {
        ChangeKind::Added => format!("+ {path}"),
        ChangeKind::Removed => format!("- {path}"),
        ChangeKind::Modified { aspects: what } => format!("M {path}{}", aspects(what)),
        ChangeKind::Renamed { from, aspects: what } => format!("R {} > {path}{}", text(from), aspects(what)),
        ChangeKind::Unreadable { reason } => format!("! {path} {reason}"),
    }
}

pub fn lines(changes: &Changes) -> Vec<String> {
    changes.entries.iter().map(line).collect()
}
