//! Forwards that lead on, over the network of their workspace, to another one.
//!
//! They are connections of the workspace like any other: the router decides on each by the rules of both, and logs it.
//! Nothing else on the host can be reached in this way. That the rules allow such connections is required when the
//! forward is made, so that a mistake is seen at once; they may change later.

use std::net::Ipv4Addr;

use agentiso_core::ports::records::Workspace;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_policy::egress::{Policy, Protocol, Rule};
use serde_json::json;

use crate::Engine;

/// Refuses a forward from a workspace towards another one that the rules of the two do not allow.
pub(super) fn require_reachable(from: &Workspace, to: &Workspace, port: u16) -> Result<(), Failure> {
    if from.id == to.id {
        return Err(Failure::new(Code::InvalidArgument, "a workspace cannot be forwarded towards itself")
            .with_remedy("leave out to: the forward then leads to a port of the workspace"));
    }
    let (own, other) = (Policy::check(&from.network.rules)?, Policy::check(&to.network.rules)?);
    let is_off = from.network.address.is_none() || to.network.address.is_none();
    let address = to.network.address.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let verdict = own.neighbour_verdict(&other, address, port, Protocol::Tcp);
    if verdict.allowed && !is_off {
        return Ok(());
    }
    let (from_name, to_name) = (from.name.as_str(), to.name.as_str());
    let remedy = match &verdict.rule {
        Rule::InterVmOff => {
            let closed = [from, to].into_iter().filter(|one| !one.network.rules.allow_inter_vm);
            let calls =
                closed.map(|one| call(&json!({ "workspace_id": one.name.as_str(), "allow_inter_vm": true })));
            calls.collect::<Vec<_>>().join(" and ") + " would allow it"
        }
        Rule::NoSharedGroup => {
            let groups = &from.network.rules.groups;
            call(&json!({ "workspace_id": to_name, "groups": groups }))
                + " would put both into the same groups"
        }
        Rule::PortNotAllowed => {
            let ports = to.network.rules.allowed_ports.iter().flatten().copied();
            let ports: Vec<u16> = ports.chain([port]).collect();
            call(&json!({ "workspace_id": to_name, "allowed_ports": ports })) + " would allow it"
        }
        Rule::DenyCidr(range) => {
            format!("call network_policy for {from_name:?} with deny_cidrs that do not contain {range}")
        }
        _ => "network_policy shows and changes the rules of each".to_owned(),
    };
    let why = match is_off && verdict.allowed {
        true => "one of them has no network".to_owned(),
        false => verdict.rule.to_string(),
    };
    let message =
        format!("the rules do not allow connections from {from_name:?} to port {port} of {to_name:?}: {why}");
    Err(Failure::new(Code::NotPermitted, message).with_remedy(remedy))
}

fn call(arguments: &serde_json::Value) -> String {
    format!("network_policy with {arguments}")
}

impl Engine {
    /// The present address of a workspace that a forward leads to.
    pub(super) async fn address_of(&self, id: WorkspaceId) -> Result<Ipv4Addr, Failure> {
        let workspace = self.records.workspace(id).await?;
        workspace.network.address.ok_or_else(|| {
            let name = workspace.name.as_str();
            Failure::new(Code::NotPermitted, format!("{name:?} has no network"))
                .with_remedy("network_policy gives it one")
        })
    }
}
