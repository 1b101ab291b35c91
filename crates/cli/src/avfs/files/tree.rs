//! `avfs tree`.

use std::ffi::OsString;
use std::io::{self, Write};

use agentiso_core::Failure;
use agentiso_vfs::TreeNode;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::{human, kind_name};
use crate::ui::Stream;

/// Flags of `tree`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work tree -L 2 /src")]
pub struct Tree {
    /// The directory
    #[arg(default_value = "/")]
    pub path: OsString,
    /// How deep to look
    #[arg(short = 'L', long, value_name = "N")]
    pub level: Option<usize>,
    /// Only directories
    #[arg(short, long)]
    pub dirs: bool,
    /// Show sizes
    #[arg(long)]
    pub size: bool,
}

/// A file or directory with what is in it.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Node {
    name: String,
    /// `file`, `directory`, `symlink` or `fifo`.
    #[serde(rename = "type")]
    kind: String,
    /// The size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// What is in a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
}

/// Shows a tree.
pub fn tree(context: &Context, flags: Tree) -> Result<u8, Failure> {
    let found = context.view()?.tree_of(&path(&flags.path)?, flags.level)?;
    let mut root = node(&found, &flags);
    if root.name.is_empty() {
        root.name = "/".to_owned();
    }
    context.shown.result(&root, |out| show(out, &root, &flags))?;
    Ok(0)
}

fn node(found: &TreeNode, flags: &Tree) -> Node {
    let kind = kind_name(found.stat.kind);
    let wanted = |child: &&TreeNode| !flags.dirs || kind_name(child.stat.kind) == "directory";
    let children = found.children.as_ref();
    Node {
        name: String::from_utf8_lossy(&found.stat.name()).into_owned(),
        kind: kind.to_owned(),
        size: (kind == "file").then_some(found.stat.size),
        children: children
            .map(|children| children.iter().filter(wanted).map(|child| node(child, flags)).collect()),
    }
}

fn show(out: &mut Stream, root: &Node, flags: &Tree) -> io::Result<()> {
    writeln!(out, "{}{}", root.name, size(root, flags))?;
    below(out, root, flags, "")
}

fn below(out: &mut Stream, node: &Node, flags: &Tree, indent: &str) -> io::Result<()> {
    let children = node.children.as_deref().unwrap_or_default();
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (branch, below_it) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let end = if child.kind == "directory" { "/" } else { "" };
        writeln!(out, "{indent}{branch}{}{end}{}", child.name, size(child, flags))?;
        below(out, child, flags, &format!("{indent}{below_it}"))?;
    }
    Ok(())
}

fn size(node: &Node, flags: &Tree) -> String {
    let size = node.size.filter(|_| flags.size);
    size.map(|size| format!("  {}", human(size))).unwrap_or_default()
}
