//! What to do about a command that failed because of the network rules.

use std::collections::BTreeSet;

use agentiso_core::{Ask, NetworkEntry, NetworkRules};
use agentiso_policy::egress::Rule;
use jiff::Timestamp;
use serde_json::json;

use crate::act::Context;

/// The most destinations that are named.
const NAMED: usize = 5;
/// The longest list that is repeated in full.
const REPEATED: usize = 20;

/// What programs say that could not connect or resolve a name.
const SYMPTOMS: [&str; 9] = [
    "Temporary failure resolving",
    "Temporary failure in name resolution",
    "Could not resolve",
    "Name or service not known",
    "Network is unreachable",
    "Connection refused",
    "Could not connect",
    "Failed to connect",
    "bad address '",
];

/// Whether a program says that it could not connect.
pub(crate) fn is_about_network(output: &str) -> bool {
    SYMPTOMS.iter().any(|symptom| output.contains(symptom))
}

impl Context {
    /// What to do about a command that began at this time on the wall clock and failed, if the network rules are the
    /// reason. `symptoms` tells whether its output says so.
    pub(crate) async fn network_advice(&self, began: Timestamp, symptoms: bool) -> Option<String> {
        let workspace = self.engine.records.workspace(self.workspace().ok()?.id).await.ok()?;
        let (name, rules) = (workspace.name.as_str(), &workspace.network.rules);
        if rules.is_off() {
            return symptoms.then(|| without_network(name));
        }
        if !symptoms {
            return None;
        }
        let refused = self.engine.refused_since(workspace.id, began).await.ok()?;
        advice(name, rules, &refused)
    }
}

fn without_network(workspace: &str) -> String {
    let call = json!({ "workspace_id": workspace, "preset": "packages" });
    format!(
        "the workspace has no network; network_policy {call} allows package hosts, allow_domains other names; or copy \
         files in with file_transfer"
    )
}

/// Which call would allow what was refused.
fn advice(workspace: &str, rules: &NetworkRules, refused: &[NetworkEntry]) -> Option<String> {
    let destinations: BTreeSet<String> = refused
        .iter()
        .filter(|one| one.port != 0 || one.name.is_some())
        .map(NetworkEntry::destination)
        .collect();
    let shown = destinations.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if shown.is_empty() {
        return None;
    }
    let unlisted: Vec<&NetworkEntry> =
        refused.iter().filter(|one| one.rule == Rule::NotListed.to_string()).collect();
    let add = |known: Option<&Vec<String>>, new: BTreeSet<String>| {
        let known = known.cloned().unwrap_or_default();
        let new: Vec<String> = new.into_iter().filter(|one| !known.contains(one)).take(NAMED).collect();
        (!new.is_empty()).then(|| (known.len() <= REPEATED).then(|| [known, new.clone()].concat()).ok_or(new))
    };
    let names = unlisted.iter().filter_map(|one| one.name.clone()).collect();
    let addresses = unlisted.iter().filter(|one| one.name.is_none());
    let addresses = addresses.filter_map(|one| one.address.map(|address| format!("{address}/32"))).collect();
    let mut call = json!({ "workspace_id": workspace });
    let mut additions = Vec::new();
    for (field, list) in [
        ("allow_domains", add(rules.allow_domains.as_ref(), names)),
        ("allow_cidrs", add(rules.allow_cidrs.as_ref(), addresses)),
    ] {
        match list {
            Some(Ok(whole)) => call[field] = json!(whole),
            Some(Err(new)) => additions.push(format!("{} added to {field}", new.join(", "))),
            None => {}
        }
    }
    let rule = refused.last().map(|one| one.rule.clone()).unwrap_or_default();
    let mut text = format!("the network rules refused {shown} ({rule})");
    if call.as_object().is_some_and(|call| call.len() > 1) {
        text += &format!("; network_policy {call} allows it");
    }
    if !additions.is_empty() {
        text += &format!("; network_policy with {} allows it", additions.join(" and "));
    }
    if rules.ask != Ask::Off {
        text += "; the operator has been asked, inbox list shows the request";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use agentiso_core::{NetworkEvent, NetworkProtocol, WorkspaceId};
    use uuid::Uuid;

    use super::*;

    fn refused(name: Option<&str>, address: Option<&str>, rule: &Rule) -> NetworkEntry {
        NetworkEntry {
            sequence: 1,
            at: Timestamp::UNIX_EPOCH,
            workspace: WorkspaceId::from_uuid(Uuid::nil()),
            event: NetworkEvent::Refused,
            protocol: NetworkProtocol::Tcp,
            name: name.map(str::to_owned),
            address: address.map(|text| text.parse().unwrap()),
            port: 443,
            rule: rule.to_string(),
            bytes_sent: 0,
            bytes_received: 0,
            duration_ms: 0,
        }
    }

    #[test]
    fn the_call_that_would_allow_it_is_named_with_the_whole_list() {
        let rules = NetworkRules {
            allow_internet: true,
            allow_domains: Some(vec!["a.example".to_owned()]),
            ..NetworkRules::default()
        };
        let entries = [refused(Some("b.example"), None, &Rule::NotListed)];
        assert_eq!(
            advice("web", &rules, &entries).unwrap(),
            "the network rules refused b.example (not in allow_domains or allow_cidrs); network_policy \
             {\"allow_domains\":[\"a.example\",\"b.example\"],\"workspace_id\":\"web\"} allows it"
        );
        let by_address = [refused(None, Some("192.0.2.1"), &Rule::NotListed)];
        assert!(advice("web", &rules, &by_address).unwrap().contains(r#""allow_cidrs":["192.0.2.1/32"]"#));
        assert_eq!(advice("web", &rules, &[]), None);
    }

    #[test]
    fn what_a_list_denies_is_named_without_a_call_and_a_request_is_mentioned() {
        let rules = NetworkRules { allow_internet: true, ask: Ask::Refuse, ..NetworkRules::default() };
        let denied = Rule::DenyDomain("*.example".to_owned());
        let text = advice("web", &rules, &[refused(Some("b.example"), None, &denied)]).unwrap();
        assert!(text.contains("deny_domains: *.example") && !text.contains("network_policy"), "{text}");
        assert!(text.contains("inbox list"), "{text}");
    }
}
