//! Git repositories in and out.

use std::path::Path;
use std::process::Command;

use agentiso_store::{Commit, Node, StoreError, export_git, import_git, import_git_line, lookup};

use crate::support::*;

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(place: &Place) -> std::path::PathBuf {
    let root = place.path("repository");
    std::fs::create_dir(&root).unwrap();
    git(&root, &["init", "--quiet", "--initial-branch=main"]);
    write(&root.join("src/main.rs"), "fn main() {}\n");
    write(&root.join("odd \"name\"\n\u{fc}"), "odd\n");
    write(&root.join("run"), "#!/bin/sh\n");
    std::fs::set_permissions(root.join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("src", root.join("link")).unwrap();
    git(&root, &["add", "--all"]);
    git(&root, &["commit", "--quiet", "--message", "first"]);
    write(&root.join("src/main.rs"), "fn main() { todo!() }\n");
    std::fs::remove_file(root.join("link")).unwrap();
    git(&root, &["commit", "--quiet", "--all", "--message", "second\n\nwith a body"]);
    root
}

#[test]
fn a_revision_is_imported_with_its_commit() {
    let place = Place::new();
    let root = repository(&place);
    write(&root.join("src/main.rs"), "not committed");
    let session = place.store.begin().unwrap();
    let head = import_git(&session, &root, "main").unwrap();
    assert_eq!(head.commit, git(&root, &["rev-parse", "HEAD"]));
    assert_eq!((head.author.as_str(), head.message.as_str()), ("A", "second\n\nwith a body"));
    assert_eq!(texts(&session, head.tree).get("/src/main.rs").unwrap(), "fn main() { todo!() }\n");
    let Some(Node::File(file)) = lookup(&session, head.tree, &path("run")).unwrap() else { panic!() };
    assert_eq!((file.meta.mode, file.meta.mtime.seconds), (0o755, head.time));
    let first = import_git(&session, &root, "HEAD~1").unwrap();
    assert!(matches!(lookup(&session, first.tree, &path("link")), Ok(Some(Node::Symlink { .. }))));
    for bad in ["nothing", "--all", "HEAD:src", ""] {
        let result = import_git(&session, &root, bad);
        assert!(matches!(result, Err(StoreError::Git { .. })), "{bad}: {result:?}");
    }
    assert!(matches!(import_git(&session, place.store.root(), "HEAD"), Err(StoreError::Git { .. })));
}

#[test]
fn a_line_of_trees_becomes_commits_with_the_same_files() {
    let place = Place::new();
    let root = repository(&place);
    let session = place.store.begin().unwrap();
    let line = import_git_line(&session, &root, "main", 10).unwrap();
    assert_eq!(
        line.iter().map(|commit| commit.message.lines().next().unwrap()).collect::<Vec<_>>(),
        ["first", "second"]
    );
    let commits: Vec<_> = line
        .iter()
        .map(|commit| Commit {
            tree: commit.tree,
            message: commit.message.clone(),
            author: "B <evil>\n".to_owned(),
            email: "b@example.org".to_owned(),
            time: commit.time,
        })
        .collect();
    let exported = export_git(&session, &commits, &place.path("new.git"), "from-trees").unwrap();
    assert_eq!((exported.commits, exported.skipped.len()), (2, 0));
    let tree_of =
        |directory: &Path, revision: &str| git(directory, &["rev-parse", &format!("{revision}^{{tree}}")]);
    let new = place.path("new.git");
    assert_eq!(tree_of(&new, "from-trees"), tree_of(&root, "main"));
    assert_eq!(tree_of(&new, "from-trees~1"), tree_of(&root, "main~1"));
    assert_eq!(git(&new, &["log", "-1", "--format=%an", "from-trees"]), "B  evil");
    git(&new, &["fsck", "--strict"]);
    let again = export_git(&session, &commits, &new, "from-trees");
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    let bad = export_git(&session, &commits, &place.path("other.git"), "bad..name");
    assert!(matches!(bad, Err(StoreError::Invalid { .. })), "{bad:?}");
    assert!(!place.path("other.git").exists());
}

#[test]
fn what_git_cannot_hold_is_listed() {
    let place = Place::new();
    let session = place.store.begin().unwrap();
    let tree = tree(&session, &[("a/.git/config", "[core]"), ("a/.GIT", "x"), ("b", "x")]);
    let commit = Commit { tree, message: String::new(), author: "A".into(), email: "a@b".into(), time: 1 };
    let exported = export_git(&session, &[commit], &place.path("r.git"), "main").unwrap();
    let skipped: Vec<_> = exported.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped, ["/a/.GIT", "/a/.git/config"]);
    assert_eq!(git(&place.path("r.git"), &["ls-tree", "-r", "--name-only", "main"]), "b");
}
