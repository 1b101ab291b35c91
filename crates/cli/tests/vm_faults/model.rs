//! The expected state, according to acknowledged commands.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::Agentiso;

/// A workspace.
#[derive(Clone, Debug)]
pub struct Known {
    /// Possible content of its disk. More than one only after a restore that was not acknowledged.
    pub disk: Vec<String>,
    /// Content of its memory, if it was written since its machine started. While suspended: what it will contain.
    pub memory: Option<String>,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its QEMU, while it runs.
    pub pid: Option<u32>,
    /// Its snapshots by name.
    pub snapshots: BTreeMap<String, Kept>,
}

/// A snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kept {
    pub token: String,
    pub memory: bool,
}

/// A workspace in the output of `ls`.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: String,
    pub pid: Option<u32>,
    pub suspended: bool,
}

impl Known {
    /// A workspace whose disk has one of these contents.
    pub fn new(disk: Vec<String>, memory: Option<String>, pid: Option<u32>) -> Self {
        Self { disk, memory, suspended: false, pid, snapshots: BTreeMap::new() }
    }

    pub fn runs(&self) -> bool {
        self.pid.is_some()
    }
}

/// Lists all workspaces.
pub fn listed(agentiso: &Agentiso) -> Vec<Listed> {
    let all = agentiso.must(&["ls"]);
    let one = |view: &Value| {
        let name = view["name"].as_str().unwrap().to_owned();
        let pid = agentiso.must(&["info", &name])["pid"].as_u64();
        let suspended = view["state"] == "suspended";
        Listed { name, pid: pid.and_then(|pid| u32::try_from(pid).ok()), suspended }
    };
    all["workspaces"].as_array().unwrap().iter().map(one).collect()
}

/// The names of a workspace's snapshots, and whether they include memory.
pub fn listed_snapshots(agentiso: &Agentiso, workspace: &str) -> BTreeMap<String, bool> {
    let all = agentiso.must(&["snapshot", "ls", workspace]);
    let one = |view: &Value| (view["name"].as_str().unwrap().to_owned(), view["has_memory"] == true);
    all["snapshots"].as_array().unwrap().iter().map(one).collect()
}
