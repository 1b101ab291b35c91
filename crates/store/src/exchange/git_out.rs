//! Writes trees as commits of a git repository, through `git fast-import`.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Stdio;

use super::git::{failed, finish, git, output};
use crate::content::ContentReader;
use crate::diff::{Delta, compare};
use crate::error::StoreError;
use crate::id::{ObjectId, TreeId};
use crate::node::{Content, Node};
use crate::path::TreePath;
use crate::store::Objects;
use crate::tree::{Visit, walk};

/// A tree that becomes a commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The files.
    pub tree: TreeId,
    /// The message.
    pub message: String,
    /// Name of author and committer.
    pub author: String,
    /// Their address.
    pub email: String,
    /// Seconds since 1970.
    pub time: i64,
}

/// What was written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GitExported {
    /// The full name of the last commit.
    pub head: String,
    /// Number of commits.
    pub commits: u64,
    /// Paths that git cannot hold: pipes, and everything below a name `.git`. Empty directories, owners and attributes are
    /// left out without being listed.
    pub skipped: Vec<TreePath>,
}

/// Writes trees as a line of commits on a new branch. The repository is created, bare, if the directory does not exist.
/// The branch appears with the last commit or not at all.
pub fn export_git(
    objects: &dyn Objects,
    line: &[Commit],
    repository: &Path,
    branch: &str,
) -> Result<GitExported, StoreError> {
    if line.is_empty() {
        return Err(StoreError::invalid("the export", "it has no commits"));
    }
    let is_new = !repository.try_exists().map_err(StoreError::io("read", repository))?;
    if is_new {
        fs::create_dir_all(repository).map_err(StoreError::io("create", repository))?;
    }
    let exported = prepare(repository, branch, is_new)
        .and_then(|reference| write(objects, line, repository, &reference));
    if exported.is_err() && is_new {
        let _ = fs::remove_dir_all(repository);
    }
    exported
}

/// Creates the repository and checks the branch; returns its full name.
fn prepare(repository: &Path, branch: &str, is_new: bool) -> Result<String, StoreError> {
    if is_new {
        output("init", git(repository).args(["init", "--bare", "--quiet"]))?;
    }
    let reference = format!("refs/heads/{branch}");
    output("check-ref-format", git(repository).arg("check-ref-format").arg(&reference))
        .map_err(|_| StoreError::invalid(format!("the branch {branch:?}"), "it is not a valid name"))?;
    let mut show = git(repository);
    show.args(["show-ref", "--verify", "--quiet"]).arg(&reference);
    match output("show-ref", &mut show) {
        Ok(_) => Err(StoreError::Exists { path: repository.join(reference) }),
        Err(StoreError::Git { .. }) => Ok(reference),
        Err(error) => Err(error),
    }
}

fn write(
    objects: &dyn Objects,
    line: &[Commit],
    repository: &Path,
    reference: &str,
) -> Result<GitExported, StoreError> {
    let mut command = git(repository);
    command.args(["fast-import", "--quiet", "--done"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(StoreError::GitMissing)?;
    let stdin = child.stdin.take().ok_or_else(|| failed("fast-import", b""))?;
    let mut stream = Stream {
        objects,
        out: BufWriter::with_capacity(256 << 10, stdin),
        marks: HashMap::new(),
        skipped: Vec::new(),
    };
    let written = stream.all(line, reference);
    let Stream { out, skipped, .. } = stream;
    // Closing the input without `done` makes git discard everything.
    drop(out);
    let finished = finish("fast-import", child);
    match (written, finished) {
        // What git says is the cause of a broken pipe.
        (Err(Failure::Io(_)), Err(error)) => return Err(error),
        (Err(Failure::Io(error)), Ok(())) => return Err(StoreError::io("write to", repository)(error)),
        (Err(Failure::Store(error)), _) => return Err(error),
        (Ok(()), finished) => finished?,
    }
    let head = output("rev-parse", git(repository).args(["rev-parse", "--verify", reference]))?;
    let head = String::from_utf8_lossy(&head).trim().to_owned();
    Ok(GitExported { head, commits: line.len() as u64, skipped })
}

enum Failure {
    Io(io::Error),
    Store(StoreError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

struct Stream<'s, W: Write> {
    objects: &'s dyn Objects,
    out: W,
    /// Blobs that were sent, by content.
    marks: HashMap<ObjectId, usize>,
    skipped: Vec<TreePath>,
}

impl<W: Write> Stream<'_, W> {
    fn all(&mut self, line: &[Commit], reference: &str) -> Result<(), Failure> {
        let mut before = None;
        for commit in line {
            self.commit(commit, before, reference)?;
            before = Some(commit.tree);
        }
        self.out.write_all(b"done\n")?;
        self.out.flush()?;
        Ok(())
    }

    fn commit(&mut self, commit: &Commit, before: Option<TreeId>, reference: &str) -> Result<(), Failure> {
        // Blobs come before the commit that names them, so its lines are collected first.
        let mut lines = Vec::new();
        match before {
            None => self.put(&TreePath::root(), &Node::Directory(commit.tree), &mut lines)?,
            Some(before) => {
                for delta in compare(self.objects, before, commit.tree)? {
                    match delta {
                        Delta::Created { path, node } => self.put(&path, &node, &mut lines)?,
                        Delta::Removed { path, .. } => remove(&path, &mut lines),
                        Delta::Changed { path, after, .. } => {
                            remove(&path, &mut lines);
                            self.put(&path, &after, &mut lines)?;
                        }
                        Delta::DirectoryMeta { .. } => {}
                    }
                }
            }
        }
        let person = |text: &str| text.replace(['<', '>', '\n', '\0'], " ").trim().to_owned();
        let (author, email) = (person(&commit.author), person(&commit.email));
        let time = commit.time.max(0);
        writeln!(self.out, "commit {reference}")?;
        writeln!(self.out, "committer {author} <{email}> {time} +0000")?;
        writeln!(self.out, "data {}", commit.message.len())?;
        self.out.write_all(commit.message.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.out.write_all(&lines)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Sends the blobs of a node and everything in it, and adds the lines that name them.
    fn put(&mut self, path: &TreePath, node: &Node, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let Node::Directory(tree) = node else { return self.put_one(path, node, lines) };
        let mut files = Vec::new();
        walk(self.objects, *tree, |below, visit| {
            if let Visit::Other(node) = visit {
                files.push((below.below(path), node.clone()));
            }
            Ok(())
        })?;
        for (path, node) in files {
            self.put_one(&path, &node, lines)?;
        }
        Ok(())
    }

    fn put_one(&mut self, path: &TreePath, node: &Node, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let is_hidden = path.components().any(|name| name.eq_ignore_ascii_case(b".git"));
        let (mode, mark) = match node {
            _ if is_hidden => return self.skip(path),
            Node::Fifo { .. } | Node::Directory(_) => return self.skip(path),
            Node::Symlink { target, .. } => ("120000", self.inline(target)?),
            Node::File(file) => {
                let mode = if file.meta.mode & 0o111 == 0 { "100644" } else { "100755" };
                (mode, self.blob(file.content, file.size)?)
            }
        };
        lines.extend_from_slice(format!("M {mode} :{mark} ").as_bytes());
        quote(path, lines);
        Ok(())
    }

    fn skip(&mut self, path: &TreePath) -> Result<(), Failure> {
        self.skipped.push(path.clone());
        Ok(())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let id = ObjectId::of(crate::id::ObjectKind::Blob, bytes);
        self.send(id, bytes.len() as u64, &mut &*bytes)
    }

    fn blob(&mut self, content: Content, size: u64) -> Result<usize, Failure> {
        let id = match content {
            Content::Empty => ObjectId::of(crate::id::ObjectKind::Blob, b""),
            Content::Blob(id) | Content::Chunked(id) => id,
        };
        if let Some(mark) = self.marks.get(&id) {
            return Ok(*mark);
        }
        let mut reader = ContentReader::new(self.objects, content, size)?;
        self.send(id, size, &mut reader)
    }

    fn send(&mut self, id: ObjectId, size: u64, bytes: &mut dyn io::Read) -> Result<usize, Failure> {
        if let Some(mark) = self.marks.get(&id) {
            return Ok(*mark);
        }
        let mark = self.marks.len() + 1;
        write!(self.out, "blob\nmark :{mark}\ndata {size}\n")?;
        let copied =
            io::copy(bytes, &mut self.out).map_err(|error| match error.downcast::<StoreError>() {
                Ok(error) => Failure::Store(error),
                Err(error) => Failure::Io(error),
            })?;
        if copied != size {
            return Err(StoreError::damaged(format!("the content {id}"), "its size is wrong").into());
        }
        self.out.write_all(b"\n")?;
        self.marks.insert(id, mark);
        Ok(mark)
    }
}

fn remove(path: &TreePath, lines: &mut Vec<u8>) {
    lines.extend_from_slice(b"D ");
    quote(path, lines);
}

/// A path in quotes with every unusual byte escaped, and the end of the line.
fn quote(path: &TreePath, lines: &mut Vec<u8>) {
    lines.push(b'"');
    for byte in path.as_bytes() {
        match byte {
            b'"' | b'\\' => lines.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => lines.push(*byte),
            _ => lines.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    lines.extend_from_slice(b"\"\n");
}
