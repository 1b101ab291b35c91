//! Reads revisions of a git repository.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::git::{failed, git, output};
use crate::builder::{PathBuilder, Planned};
use crate::content::{read_content, store_stream};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::limits::MAX_TARGET;
use crate::node::{Content, File, Meta, Node, Time};
use crate::path::TreePath;
use crate::session::Session;

/// A revision as a tree.
#[derive(Clone, Debug)]
pub struct GitImported {
    /// The tree: files, links and directories, with the time of the commit and the caller as owner.
    pub tree: TreeId,
    /// The full name of the commit.
    pub commit: String,
    /// Time of the commit, in seconds.
    pub time: i64,
    /// Name of the author.
    pub author: String,
    /// Address of the author.
    pub email: String,
    /// The whole message.
    pub message: String,
    /// Submodules, which are empty directories in the tree.
    pub submodules: Vec<TreePath>,
}

/// Imports the files of one revision, such as `HEAD`, a branch, a tag or a commit. Reads the repository's objects, not its
/// work tree, so uncommitted changes do not count; import the directory for those.
pub fn import_git(session: &Session, repository: &Path, revision: &str) -> Result<GitImported, StoreError> {
    let commit = resolve(repository, revision)?;
    Reading::new(session, repository)?.commit(commit)
}

/// Imports up to `max` commits that lead to a revision, oldest first, following first parents. Each file is read once,
/// however many commits have it.
pub fn import_git_line(
    session: &Session,
    repository: &Path,
    revision: &str,
    max: usize,
) -> Result<Vec<GitImported>, StoreError> {
    let commit = resolve(repository, revision)?;
    let mut command = git(repository);
    command.args(["rev-list", "--first-parent", "--reverse"]).arg(format!("--max-count={max}")).arg(commit);
    let list = output("rev-list", &mut command)?;
    let mut reading = Reading::new(session, repository)?;
    String::from_utf8_lossy(&list).lines().map(|commit| reading.commit(commit.to_owned())).collect()
}

fn resolve(repository: &Path, revision: &str) -> Result<String, StoreError> {
    let mut command = git(repository);
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    let name = output("rev-parse", command.arg(format!("{revision}^{{commit}}")));
    let name = name.map_err(|error| match error {
        StoreError::Git { command, message } if message == "it ended early" => {
            StoreError::Git { command, message: format!("there is no commit {revision:?}") }
        }
        other => other,
    })?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    if name.len() < 40 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(failed("rev-parse", name.as_bytes()));
    }
    Ok(name)
}

/// A repository with one `git cat-file` that serves all reads.
struct Reading<'r> {
    session: &'r Session,
    repository: &'r Path,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    known: HashMap<Vec<u8>, (u64, Content)>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'r> Reading<'r> {
    fn new(session: &'r Session, repository: &'r Path) -> Result<Self, StoreError> {
        let mut command = git(repository);
        command
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(StoreError::GitMissing)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(requests), Some(answers)) => {
                let answers = BufReader::with_capacity(64 << 10, answers);
                Ok(Self { session, repository, child, requests, answers, known: HashMap::new() })
            }
            _ => Err(failed("cat-file", b"")),
        }
    }

    fn commit(&mut self, commit: String) -> Result<GitImported, StoreError> {
        let mut show = git(self.repository);
        show.args(["log", "-1", "--no-show-signature", "--format=%ct%x00%an%x00%ae%x00%B"]).arg(&commit);
        let shown = output("log", &mut show)?;
        let shown = String::from_utf8_lossy(&shown);
        let mut fields = shown.splitn(4, '\0').map(str::to_owned);
        let time: i64 = fields.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut field = || fields.next().unwrap_or_default();
        let (author, email, message) = (field(), field(), field().trim_end().to_owned());
        let (tree, submodules) = self.files(&commit, time)?;
        Ok(GitImported { tree, commit, time, author, email, message, submodules })
    }

    fn files(&mut self, commit: &str, seconds: i64) -> Result<(TreeId, Vec<TreePath>), StoreError> {
        let meta = |mode| Meta {
            mode,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mtime: Time { seconds, nanos: 0 },
            attributes: None,
        };
        let listed =
            output("ls-tree", git(self.repository).args(["ls-tree", "-r", "-z", "--full-tree", commit]))?;
        let mut builder = PathBuilder::new(meta(0o755));
        let mut submodules = Vec::new();
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let (mode, name, path) = parse_line(line).ok_or_else(|| failed("ls-tree", line))?;
            let path = TreePath::parse(path)?;
            let planned = match mode {
                b"160000" => {
                    submodules.push(path.clone());
                    Planned::Directory(meta(0o755))
                }
                b"120000" => {
                    let (size, content) = self.blob(name)?;
                    let target = read_content(self.session, content, size, MAX_TARGET)?.into_boxed_slice();
                    if target.is_empty() || target.contains(&0) {
                        return Err(StoreError::invalid(&path, "the target of this link is invalid"));
                    }
                    Planned::Node(Node::Symlink { meta: meta(0o777), target })
                }
                _ => {
                    let (size, content) = self.blob(name)?;
                    let meta = meta(if mode == b"100755" { 0o755 } else { 0o644 });
                    Planned::Node(Node::File(File { meta, size, content, link: None }))
                }
            };
            builder.insert(path, planned, meta(0o755))?;
        }
        Ok((builder.finish(self.session)?, submodules))
    }

    fn blob(&mut self, name: &[u8]) -> Result<(u64, Content), StoreError> {
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        let io = |error| StoreError::io("read", "the repository")(error);
        self.requests.write_all(&[name, b"\n"].concat()).map_err(io)?;
        let mut header = Vec::new();
        (&mut self.answers).take(256).read_until(b'\n', &mut header).map_err(io)?;
        let size = header.strip_suffix(b"\n").and_then(|header| {
            let text = std::str::from_utf8(header).ok()?;
            let size = text.split(' ').nth(2)?;
            size.parse::<u64>().ok().filter(|_| text.split(' ').nth(1) == Some("blob"))
        });
        let size = size.ok_or_else(|| failed("cat-file", &header))?;
        let (stored, content) = store_stream(self.session, (&mut self.answers).take(size))?;
        let mut newline = [0];
        self.answers.read_exact(&mut newline).map_err(io)?;
        if stored != size {
            return Err(failed("cat-file", b"an object is shorter than it says"));
        }
        self.known.insert(name.to_vec(), (size, content));
        Ok((size, content))
    }
}

/// Mode, object and path of a line of `ls-tree -z`.
fn parse_line(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (front, path) = (line.get(..tab)?, line.get(tab + 1..)?);
    let mut words = front.split(|byte| *byte == b' ');
    let (mode, _, name) = (words.next()?, words.next()?, words.next()?);
    Some((mode, name, path))
}
