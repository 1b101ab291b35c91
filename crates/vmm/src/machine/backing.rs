//! Moving a running machine to disks that were rewritten under it.
//!
//! A frozen disk may be replaced by one that reads the same but stands on fewer others. A QEMU that has the old one
//! open goes on reading it; here it is made to open the new one instead. What the guest sees does not change.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::Machine;
use crate::VmError;
use crate::qmp::{Qmp, QmpError};

/// What QEMU calls the device.
const DEVICE: &str = "root";
/// The longest name of a node.
const LONGEST: usize = 31;

impl Machine {
    /// The files a machine's disk is read from as QEMU has them open, the one it writes to first.
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

    /// Opens what the machine's disk stands on anew.
    ///
    /// `below` is the disk directly under the one that is written to, of that format. What was open before is closed.
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
        // Everything that is not said again goes back to its default.
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

/// What QEMU says about the disk.
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

/// Closes the disks that nothing reads through any more. Each keeps the next one open, so that it takes rounds.
async fn close_unused(qmp: &Qmp, used: &[&str]) -> Result<(), VmError> {
    loop {
        let mut closed = false;
        for node in nodes(qmp).await? {
            let Some(name) = node["node-name"].as_str() else { continue };
            // Nodes without a name of ours belong to one that has one.
            if name.starts_with('#') || used.contains(&name) {
                continue;
            }
            // One that is still read through cannot be closed, which is as it should be.
            closed |= qmp.execute("blockdev-del", json!({ "node-name": name })).await.is_ok();
        }
        if !closed {
            return Ok(());
        }
    }
}

/// The file that QEMU's name of a disk stands for.
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
