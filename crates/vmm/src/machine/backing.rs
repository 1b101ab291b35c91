//! Switching a running machine to backing files that were rewritten.
//!
//! A frozen disk may be replaced by one with the same content and fewer backing files. A QEMU that has the old one open
//! continues to read it; this makes it open the new one. The guest sees no change.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::Machine;
use crate::VmError;
use crate::qmp::{Qmp, QmpError};

/// QEMU's name of the device.
const DEVICE: &str = "root";
/// The longest name of a node.
const LONGEST: usize = 31;

impl Machine {
    /// The files of a machine's disk as QEMU has them open, the one it writes to first.
    pub async fn disk_chain(&self) -> Result<Vec<PathBuf>, VmError> {
        let inserted = inserted(&self.qmp).await?;
        let mut chain = Vec::new();
        let mut image = &inserted["image"];
        while let Some(name) = image["filename"].as_str() {
            chain.push(file_of(name));
            image = &image["backing-image"];
        }
        Ok(chain)
    }

    /// Reopens the backing files of the machine's disk.
    ///
    /// `below` is the backing file of the disk that is written to. The old files are closed.
    pub async fn reopen_below(&self, below: &Path, format: &str) -> Result<(), VmError> {
        let inserted = inserted(&self.qmp).await?;
        let (Some(node), Some(file)) = (inserted["node-name"].as_str(), inserted["file"].as_str()) else {
            return Err(refused("query-block", "it names no disk").into());
        };
        let protocol = protocol_node(&self.qmp, file).await?;
        let fresh = format!("b{}", &Uuid::now_v7().simple().to_string()[32 - (LONGEST - 1)..]);
        let cache = json!({ "direct": false, "no-flush": true });
        let below = json!({
            "driver": format,
            "node-name": fresh,
            "read-only": true,
            "cache": cache,
            "file": { "driver": "file", "filename": below, "read-only": true, "cache": cache },
        });
        self.qmp.execute("blockdev-add", below).await?;
        // Options that are not repeated are reset to their defaults.
        let reopened = json!({
            "driver": format,
            "node-name": node,
            "discard": "unmap",
            "cache": cache,
            "file": protocol,
            "backing": fresh,
        });
        if let Err(error) = self.qmp.execute("blockdev-reopen", json!({ "options": [reopened] })).await {
            let _ = self.qmp.execute("blockdev-del", json!({ "node-name": fresh })).await;
            return Err(error.into());
        }
        close_unused(&self.qmp, &[node, &fresh]).await
    }
}

/// QEMU's description of the disk.
async fn inserted(qmp: &Qmp) -> Result<Value, QmpError> {
    let mut blocks = qmp.execute("query-block", json!({})).await?;
    let blocks = blocks.as_array_mut().map(std::mem::take).unwrap_or_default();
    let root = blocks.into_iter().find(|block| block["device"] == DEVICE);
    root.map(|mut block| block["inserted"].take())
        .ok_or_else(|| refused("query-block", "the machine has no disk"))
}

/// The node that reads and writes the file of a disk.
async fn protocol_node(qmp: &Qmp, file: &str) -> Result<String, QmpError> {
    let file = file_of(file);
    let is_it = |node: &&Value| {
        node["drv"] == "file" && node["file"].as_str().is_some_and(|name| file_of(name) == file)
    };
    let nodes = nodes(qmp).await?;
    let name = nodes.iter().find(is_it).and_then(|node| node["node-name"].as_str());
    name.map(str::to_owned).ok_or_else(|| refused("query-named-block-nodes", "the disk's file is not open"))
}

async fn nodes(qmp: &Qmp) -> Result<Vec<Value>, QmpError> {
    let mut nodes = qmp.execute("query-named-block-nodes", json!({ "flat": true })).await?;
    Ok(nodes.as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// Closes disks that are no longer used. Each keeps its backing file open, so this takes several rounds.
async fn close_unused(qmp: &Qmp, used: &[&str]) -> Result<(), VmError> {
    loop {
        let mut closed = false;
        for node in nodes(qmp).await? {
            let Some(name) = node["node-name"].as_str() else { continue };
            // Nodes with generated names belong to a node with a name.
            if name.starts_with('#') || used.contains(&name) {
                continue;
            }
            // A node that is still used cannot be closed.
            closed |= qmp.execute("blockdev-del", json!({ "node-name": name })).await.is_ok();
        }
        if !closed {
            return Ok(());
        }
    }
}

/// The file behind QEMU's name of a disk.
fn file_of(name: &str) -> PathBuf {
    let options = name.strip_prefix("json:").and_then(|text| serde_json::from_str::<Value>(text).ok());
    let file = options
        .as_ref()
        .and_then(|options| options["file"]["filename"].as_str().or_else(|| options["filename"].as_str()));
    PathBuf::from(file.unwrap_or(name))
}

fn refused(command: &str, message: &str) -> QmpError {
    QmpError::Refused { command: command.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_recognised_however_qemu_names_it() {
        let path = Path::new("/d/a.qcow2");
        assert_eq!(file_of("/d/a.qcow2"), path);
        let long = r#"json:{"backing": null, "driver": "qcow2", "file": {"driver": "file", "filename": "/d/a.qcow2"}}"#;
        assert_eq!(file_of(long), path);
        assert_eq!(file_of(r#"json:{"driver": "file", "filename": "/d/a.qcow2"}"#), path);
    }
}
