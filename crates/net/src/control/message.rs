//! The messages of the control protocol.

use agentiso_core::{Code, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::log::LogEntry;
use crate::router::{MachineSpec, MachineStatus};
use agentiso_policy::egress::Policy;

/// The version of the protocol that this build speaks. A router may be older than the daemon: it keeps running when the
/// daemon is upgraded.
pub const VERSION: u32 = 1;

/// What a daemon asks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first message: which versions the daemon speaks.
    Hello {
        /// The oldest version.
        oldest: u32,
        /// The newest version.
        newest: u32,
    },
    /// Attaches a machine. The router's end of its card follows as a descriptor.
    Attach {
        /// The machine.
        machine: Box<MachineSpec>,
    },
    /// Detaches a machine.
    Detach {
        /// Whose machine.
        workspace: WorkspaceId,
    },
    /// Sets policies, all at the same instant.
    SetPolicies {
        /// The new policies.
        changes: Vec<PolicyChange>,
    },
    /// Lists the attached machines with their policies and counters.
    Machines,
    /// Reads the log.
    Log {
        /// The number of the first entry.
        from: u64,
        /// How many entries at most.
        limit: usize,
    },
    /// Reads the log and everything that is added to it. No other request can follow.
    Subscribe {
        /// The number of the first entry.
        from: u64,
    },
    /// Detaches all machines and ends the router. Also understood as the first message, in every version.
    Stop,
}

/// A policy that is to be set.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// Whose.
    pub workspace: WorkspaceId,
    /// The whole policy.
    pub policy: Policy,
}

/// What the router answers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// The version that both sides use from now on.
    Hello {
        /// The version.
        version: u32,
        /// The router's process.
        pid: u32,
        /// Identifies this run of the router: the next one numbers its log from 0 again.
        instance: String,
        /// The addresses of workspaces.
        pool: String,
        /// The back end: `user` or `bridge`.
        backend: String,
    },
    /// The machine is attached, and has a TAP device instead of the card that was sent. Its file follows as a descriptor.
    Device,
    /// The request was carried out.
    Done,
    /// The attached machines.
    Machines {
        /// By address.
        machines: Vec<MachineStatus>,
    },
    /// A part of the log.
    Log {
        /// By number.
        entries: Vec<LogEntry>,
    },
    /// An entry for a subscriber.
    Entry {
        /// The entry.
        entry: LogEntry,
    },
    /// A subscriber was too slow; some entries are left out. Their numbers are missing.
    Missed {
        /// How many.
        entries: u64,
    },
    /// The request failed, and nothing was changed.
    Error {
        /// The stable code.
        code: Code,
        /// What failed and why.
        message: String,
        /// What to do next.
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "01900000-0000-7000-8000-000000000002";

    /// Requests as version 1 writes them. An older daemon sends these for ever: change the code, not the samples.
    #[test]
    fn version_1_requests_are_understood() {
        let machine = format!(
            r#"{{"workspace":"{WORKSPACE}","address":"10.99.0.2","mtu":1500,"card":"c1","limits":{{"connections":4096,"packets_per_second":200000,"bytes_per_second":1250000000,"queries_per_second":200,"tcp_idle_seconds":7200,"udp_idle_seconds":60,"ask_seconds":30}},"policy":{{"allow_internet":true,"allow_inter_vm":false,"groups":["default"]}}}}"#
        );
        let samples = [
            r#"{"request":"hello","oldest":1,"newest":1}"#.to_owned(),
            format!(r#"{{"request":"attach","machine":{machine}}}"#),
            format!(r#"{{"request":"detach","workspace":"{WORKSPACE}"}}"#),
            format!(
                r#"{{"request":"set_policies","changes":[{{"workspace":"{WORKSPACE}","policy":{{"allow_internet":false,"allow_inter_vm":true,"groups":["blue"],"allowed_ports":[80]}}}}]}}"#
            ),
            r#"{"request":"machines"}"#.to_owned(),
            r#"{"request":"log","from":7,"limit":100}"#.to_owned(),
            r#"{"request":"subscribe","from":0}"#.to_owned(),
            r#"{"request":"stop"}"#.to_owned(),
        ];
        for sample in samples {
            let request: Request = serde_json::from_str(&sample).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), sample);
        }
    }

    /// Answers as version 1 writes them.
    #[test]
    fn version_1_responses_are_understood() {
        let entry = format!(
            r#"{{"sequence":3,"at_ms":1700000000000,"workspace":"{WORKSPACE}","event":"closed","protocol":"tcp","name":"a.example","address":"93.184.216.34","port":443,"rule":"allow_internet: true","bytes_sent":1,"bytes_received":2,"duration_ms":5}}"#
        );
        let samples = [
            r#"{"response":"hello","version":1,"pid":42,"instance":"i","pool":"10.99.0.0/16","backend":"user"}"#.to_owned(),
            r#"{"response":"device"}"#.to_owned(),
            r#"{"response":"done"}"#.to_owned(),
            r#"{"response":"machines","machines":[]}"#.to_owned(),
            format!(r#"{{"response":"log","entries":[{entry}]}}"#),
            format!(r#"{{"response":"entry","entry":{entry}}}"#),
            r#"{"response":"missed","entries":9}"#.to_owned(),
            r#"{"response":"error","code":"workspace_not_running","message":"m","remedy":"r"}"#.to_owned(),
        ];
        for sample in samples {
            let response: Response = serde_json::from_str(&sample).unwrap();
            assert_eq!(serde_json::to_string(&response).unwrap(), sample);
        }
    }
}
