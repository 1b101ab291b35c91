//! Commands that get a workspace of their own. The stream is that of [`exec`](super::exec) with another first message, and
//! progress before the command starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exec::ExecSpec;
use crate::NetworkChange;
use crate::action::{Accel, Size, Tier};

/// A command and the workspace to create for it. The workspace is destroyed when the command ends or the stream closes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The workspace.
    #[serde(default)]
    pub workspace: RunWorkspace,
    /// The command.
    pub command: ExecSpec,
}

/// A workspace that exists for one command. What is absent comes from the configuration.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunWorkspace {
    /// Image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image: Option<String>,
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Root file system in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// Network rules, as for network_policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkChange>,
    /// Boots a kernel instead of cloning a template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
}

/// The machine that was started for a command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RunMachine {
    /// How long it took to start, in milliseconds.
    pub start_ms: f64,
    /// How it was started.
    pub tier: Tier,
    /// How its instructions run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accel: Option<Accel>,
    /// Its image.
    pub base_image: String,
    /// Its size.
    pub resources: Size,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_clear;

    #[test]
    fn a_request_keeps_its_form_and_takes_nothing_unknown() {
        let command = ExecSpec { argv: vec![b"true".to_vec().into()], ..Default::default() };
        let workspace = RunWorkspace { memory_mb: Some(512), cold: true, ..Default::default() };
        let spec = RunSpec { workspace, command };
        let sent = in_clear(|| serde_json::to_string(&spec)).unwrap();
        assert!(
            sent.starts_with(r#"{"workspace":{"memory_mb":512,"cold":true},"command":{"argv":["true"]"#),
            "{sent}"
        );
        assert_eq!(serde_json::from_str::<RunSpec>(&sent).unwrap(), spec);
        serde_json::from_str::<RunSpec>(r#"{"command":{}}"#).unwrap();
        for wrong in ["{}", r#"{"command":{},"name":"x"}"#, r#"{"command":{},"workspace":{"name":"x"}}"#] {
            assert!(serde_json::from_str::<RunSpec>(wrong).is_err(), "{wrong}");
        }
    }
}
