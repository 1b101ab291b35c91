//! `graph`: all notes and the links between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::view::View;

/// Reads the link graph.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadGraph {}

/// Notes and the links between them, as far as the caller may see them.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Graph {
    /// All notes.
    pub nodes: Vec<GraphNode>,
    /// Links between files, each pair once.
    pub edges: Vec<GraphEdge>,
    /// Links that lead nowhere.
    pub unresolved: u64,
    /// Whether something was left out because there is too much of it.
    pub truncated: bool,
}

/// A note.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GraphNode {
    /// Its path.
    pub path: String,
    /// Its title, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Links from one note to a file.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GraphEdge {
    /// The note with the links.
    pub source: String,
    /// The file they lead to.
    pub target: String,
    /// How many there are.
    pub links: u64,
}

impl View {
    /// Reads the link graph.
    pub fn graph(&self, _: &ReadGraph) -> Result<Graph, NotesError> {
        let found = self.inner.index.graph(&self.inner.config, &self.scope)?;
        let mut unresolved = 0;
        let mut counts = std::collections::BTreeMap::new();
        for (link, target) in found.links {
            match target {
                Some(target) => *counts.entry((link.source, target)).or_default() += 1,
                None => unresolved += 1,
            }
        }
        let edges = counts.into_iter().map(|((source, target), links)| GraphEdge { source, target, links });
        Ok(Graph {
            nodes: found.notes.into_iter().map(|(path, title)| GraphNode { path, title }).collect(),
            edges: edges.collect(),
            unresolved,
            truncated: found.is_truncated,
        })
    }
}
