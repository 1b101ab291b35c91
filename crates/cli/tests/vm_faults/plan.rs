//! Chooses the next command.

use std::collections::BTreeMap;

use agentiso_testing::Dice;

use crate::model::Known;

/// Enough for forks of forks, few enough for a small host.
const MOST_WORKSPACES: usize = 4;
const MOST_SNAPSHOTS: usize = 4;

/// A command to run.
#[derive(Clone, Debug)]
pub enum Plan {
    Create { name: String },
    Snapshot { of: String, name: String, memory: bool },
    Restore { of: String, to: String, disk_only: bool },
    Fork { of: String, from: Option<String>, name: String },
    RemoveSnapshot { of: String, name: String },
    Remove { name: String },
    Stop { name: String, force: bool },
    Start { name: String },
    Suspend { name: String },
    Restart,
}

impl Plan {
    /// Chooses a command that is possible now.
    pub fn choose(known: &BTreeMap<String, Known>, round: u64, dice: &mut Dice) -> Self {
        let fresh = format!("w{round}");
        if !known.is_empty() && dice.chance(15) {
            return Self::Restart;
        }
        loop {
            let names: Vec<&String> = known.keys().collect();
            let Some(&of) = dice.pick(&names) else { return Self::Create { name: fresh } };
            let workspace = &known[of];
            let snapshots: Vec<&String> = workspace.snapshots.keys().collect();
            let snapshot = dice.pick(&snapshots).map(|&name| name.clone());
            let of = of.clone();
            let room = known.len() < MOST_WORKSPACES;
            let plan = match dice.below(100) {
                0..10 if room => Self::Create { name: fresh },
                10..35 if snapshots.len() < MOST_SNAPSHOTS => Self::Snapshot {
                    of,
                    name: format!("s{round}"),
                    memory: workspace.runs() && dice.chance(60),
                },
                35..50 => match snapshot {
                    Some(to) => Self::Restore { of, to, disk_only: dice.chance(25) },
                    None => continue,
                },
                50..62 if room && workspace.runs() => Self::Fork { of, from: None, name: fresh },
                62..70 if room && snapshot.is_some() => Self::Fork { of, from: snapshot, name: fresh },
                70..78 => match snapshot {
                    Some(name) => Self::RemoveSnapshot { of, name },
                    None => continue,
                },
                78..84 if known.len() > 2 => Self::Remove { name: of },
                84..88 if workspace.runs() => Self::Stop { name: of, force: dice.chance(30) },
                88..94 if workspace.runs() => Self::Suspend { name: of },
                _ if !workspace.runs() => Self::Start { name: of },
                _ => continue,
            };
            return plan;
        }
    }

    /// Its command line.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::Create { name } => vec!["create", "--name", name, "--memory", "256"],
            Self::Snapshot { of, name, memory: false } => vec!["snapshot", "create", of, name],
            Self::Snapshot { of, name, memory: true } => vec!["snapshot", "create", "--memory", of, name],
            Self::Restore { of, to, disk_only: false } => vec!["snapshot", "restore", of, to],
            Self::Restore { of, to, disk_only: true } => vec!["snapshot", "restore", "--disk-only", of, to],
            Self::Fork { of, from: None, name } => vec!["fork", "--name", name, of],
            Self::Fork { of, from: Some(from), name } => vec!["fork", "--name", name, of, from],
            Self::RemoveSnapshot { of, name } => vec!["snapshot", "rm", of, name],
            Self::Remove { name } => vec!["rm", "--force", name],
            Self::Stop { name, force: false } => vec!["stop", name],
            Self::Stop { name, force: true } => vec!["stop", "--force", name],
            Self::Start { name } => vec!["start", name],
            Self::Suspend { name } => vec!["suspend", name],
            Self::Restart => vec!["daemon", "restart"],
        }
    }

    /// Commands of one kind take about the same time.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Snapshot { memory: false, .. } => "snapshot of the disk",
            Self::Snapshot { memory: true, .. } => "snapshot with memory",
            Self::Restore { .. } => "restore",
            Self::Fork { from: None, .. } => "fork of a running machine",
            Self::Fork { from: Some(_), .. } => "fork of a snapshot",
            Self::RemoveSnapshot { .. } => "removal of a snapshot",
            Self::Remove { .. } => "removal",
            Self::Stop { .. } => "stop",
            Self::Start { .. } => "start",
            Self::Suspend { .. } => "suspension",
            Self::Restart => "restart of the daemon",
        }
    }

    /// Whether it may change a workspace.
    pub fn touches(&self, workspace: &str) -> bool {
        match self {
            Self::Create { name } | Self::Fork { name, .. } => name == workspace,
            Self::Restore { of, .. } => of == workspace,
            Self::Remove { name }
            | Self::Stop { name, .. }
            | Self::Start { name }
            | Self::Suspend { name } => name == workspace,
            Self::Snapshot { .. } | Self::RemoveSnapshot { .. } | Self::Restart => false,
        }
    }

    /// The workspace whose current state it saves or copies.
    pub fn keeps_present_of(&self) -> Option<&str> {
        match self {
            Self::Snapshot { of, .. } | Self::Fork { of, from: None, .. } | Self::Suspend { name: of } => {
                Some(of)
            }
            _ => None,
        }
    }
}
