//! Requests to reach a destination: what is asked for, and what a grant opens.

use std::net::Ipv4Addr;
use std::sync::Arc;

use agentiso_core::approval::{Answer, Approval, ApprovalState, Asked, GrantScope, NetworkDestination};
use agentiso_core::ports::records::Workspace;
use agentiso_core::{Ask, Code, Failure, NetworkEntry, NetworkEvent, NetworkRules, WorkspaceId};
use agentiso_policy::egress::{ClosedRange, DomainPattern, Rule};

use crate::Engine;
use crate::events::EventKind;

/// How many grants are read to find those of a workspace.
const GRANTS: u32 = 10_000;

/// The destination that a refused connection asks for, if granting it would open it. Entries come from a guest.
pub(super) fn asked_by(entry: &NetworkEntry, rules: &NetworkRules) -> Option<NetworkDestination> {
    if entry.event != NetworkEvent::Refused || rules.ask == Ask::Off || !has_lists(rules) {
        return None;
    }
    let name = entry.name.as_ref().filter(|name| is_plain_name(name));
    let address = entry.address.filter(|address| !is_never_reachable(*address));
    let by_name = || name.cloned().map(NetworkDestination::Name);
    let by_address = || address.map(NetworkDestination::Address);
    if entry.rule == Rule::NotListed.to_string() || entry.rule == Rule::OtherResolver.to_string() {
        return by_name().or_else(by_address);
    }
    let closed = address.and_then(ClosedRange::of).map(|(kind, _)| Rule::Closed(kind).to_string());
    let is_closed = closed.as_ref() == Some(&entry.rule) || entry.rule == Rule::HostAddress.to_string();
    if is_closed { by_address() } else { None }
}

fn has_lists(rules: &NetworkRules) -> bool {
    rules.allow_internet && (rules.allow_domains.is_some() || rules.allow_cidrs.is_some())
}

fn is_plain_name(name: &str) -> bool {
    DomainPattern::parse(name).is_ok_and(|pattern| pattern.names(name))
}

fn is_never_reachable(address: Ipv4Addr) -> bool {
    ClosedRange::of(address).is_some_and(|(kind, _)| kind.is_never_reachable())
}

/// Rules that also allow a destination. Rules without lists are not changed: a list would close everything else.
pub(super) fn opened(rules: &NetworkRules, destination: &NetworkDestination) -> NetworkRules {
    let mut new = rules.clone();
    if has_lists(rules) {
        let (list, entry) = place(&mut new, destination);
        let list = list.get_or_insert_default();
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
    new
}

/// Rules that no longer list a destination.
pub(super) fn closed(rules: &NetworkRules, destination: &NetworkDestination) -> NetworkRules {
    let mut new = rules.clone();
    let (list, entry) = place(&mut new, destination);
    if let Some(list) = list {
        list.retain(|known| *known != entry);
    }
    new
}

/// The list a destination belongs to, and its entry there.
fn place<'a>(
    rules: &'a mut NetworkRules,
    destination: &NetworkDestination,
) -> (&'a mut Option<Vec<String>>, String) {
    match destination {
        NetworkDestination::Name(name) => (&mut rules.allow_domains, name.clone()),
        NetworkDestination::Address(address) => (&mut rules.allow_cidrs, format!("{address}/32")),
    }
}

impl Engine {
    /// Opens or closes what an answer to a request says, before the answer is stored. Repeating it changes nothing.
    pub(crate) async fn carry_out(
        self: &Arc<Self>,
        request: &Approval,
        answer: Answer,
    ) -> Result<(), Failure> {
        let Asked::Network { destination } = &request.asked else { return Ok(()) };
        match (answer, request.state, request.scope) {
            (Answer::Grant(GrantScope::Always), ApprovalState::Open, _) => {
                self.change_those_that_ask(|rules| opened(rules, destination)).await
            }
            (Answer::Grant(_), ApprovalState::Open, _) => {
                self.change_rules(request.workspace, |rules| opened(rules, destination)).await
            }
            (Answer::Deny, ApprovalState::Granted, Some(GrantScope::Always)) => {
                self.change_those_that_ask(|rules| closed(rules, destination)).await
            }
            (Answer::Deny, ApprovalState::Granted, _) => {
                self.change_rules(request.workspace, |rules| closed(rules, destination)).await
            }
            _ => Ok(()),
        }
    }

    /// Closes what grants for once opened, because they are over.
    pub(crate) async fn close_overdue(self: &Arc<Self>, due: &[Approval]) -> Result<(), Failure> {
        for grant in due {
            if let Some(destination) = grant.open_for_now() {
                self.change_rules(grant.workspace, |rules| closed(rules, destination)).await?;
            }
        }
        Ok(())
    }

    /// The destinations of a workspace that are open for a limited time.
    pub(crate) async fn open_for_now(
        &self,
        workspace: WorkspaceId,
    ) -> Result<Vec<NetworkDestination>, Failure> {
        let granted = self.records.approvals(Some(ApprovalState::Granted), GRANTS).await?;
        let theirs = granted.iter().filter(|one| one.workspace == workspace);
        Ok(theirs.filter_map(|one| one.open_for_now().cloned()).collect())
    }

    /// The rules of a workspace without what is open for a limited time.
    pub(crate) async fn lasting_rules(
        &self,
        workspace: WorkspaceId,
        rules: &NetworkRules,
    ) -> Result<NetworkRules, Failure> {
        let open = self.open_for_now(workspace).await?;
        Ok(open.iter().fold(rules.clone(), |rules, destination| closed(&rules, destination)))
    }

    /// Ends the grants for once of a workspace whose lists were set by hand: what they list now stays.
    pub(crate) async fn settle_grants(&self, workspace: WorkspaceId) -> Result<(), Failure> {
        for destination in self.open_for_now(workspace).await? {
            self.use_approval(workspace, &Asked::Network { destination }).await?;
        }
        Ok(())
    }

    async fn change_those_that_ask(
        self: &Arc<Self>,
        change: impl Fn(&NetworkRules) -> NetworkRules,
    ) -> Result<(), Failure> {
        let all = self.records.workspaces().await?;
        for workspace in all.iter().filter(|one| one.network.rules.ask != Ask::Off) {
            self.change_rules(workspace.id, &change).await?;
        }
        Ok(())
    }

    /// Changes the rules of a workspace, if it exists.
    async fn change_rules(
        self: &Arc<Self>,
        id: WorkspaceId,
        change: impl Fn(&NetworkRules) -> NetworkRules,
    ) -> Result<(), Failure> {
        let live = self.live.of(id);
        let _turn = live.network_lock.lock().await;
        let workspace: Workspace = match self.records.workspace(id).await {
            Err(failure) if failure.code() == Code::WorkspaceNotFound => return Ok(()),
            found => found?,
        };
        let new = change(&workspace.network.rules);
        if new != workspace.network.rules {
            self.host.set_network(id, &new).await?;
            let note = Some(new.in_words());
            self.events.tell(EventKind::NetworkChanged, id, workspace.name.as_str(), note).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agentiso_core::NetworkProtocol;
    use agentiso_policy::egress::{Destination, Flow, Policy};
    use jiff::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn refused(name: Option<&str>, address: Option<&str>, rule: Rule) -> NetworkEntry {
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

    fn asking(domains: &[&str]) -> NetworkRules {
        let domains = domains.iter().map(|&text| text.to_owned()).collect();
        let ask = Ask::Refuse;
        NetworkRules { allow_internet: true, allow_domains: Some(domains), ask, ..NetworkRules::default() }
    }

    #[test]
    fn only_what_a_grant_could_open_is_asked_for() {
        let rules = asking(&[]);
        let asked = |name, address, rule| {
            asked_by(&refused(name, address, rule), &rules).map(|destination| destination.to_string())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(asked(Some("a.example"), None, Rule::NotListed), text("a.example"));
        assert_eq!(asked(None, Some("192.0.2.7"), Rule::NotListed), text("192.0.2.7"));
        assert_eq!(asked(Some("a.example"), Some("192.0.2.7"), Rule::NotListed), text("a.example"));
        let private = || Rule::Closed(ClosedRange::of(Ipv4Addr::new(10, 0, 0, 1)).unwrap().0);
        assert_eq!(asked(Some("a.example"), Some("10.0.0.1"), private()), text("10.0.0.1"));
        assert_eq!(asked(None, Some("127.0.0.1"), Rule::NotListed), None, "never reachable");
        assert_eq!(asked(Some("*.example"), None, Rule::NotListed), None, "not a name");
        assert_eq!(asked(Some("a b"), None, Rule::NotListed), None);
        assert_eq!(asked(Some("a.example"), None, Rule::DenyDomain("a.example".to_owned())), None);
        assert_eq!(asked(None, Some("10.99.0.9"), Rule::NoSharedGroup), None);
        let open = NetworkRules { allow_domains: None, ..rules.clone() };
        assert_eq!(asked_by(&refused(Some("a.example"), None, Rule::NotListed), &open), None);
        let silent = NetworkRules { ask: Ask::Off, ..rules.clone() };
        assert_eq!(asked_by(&refused(Some("a.example"), None, Rule::NotListed), &silent), None);
    }

    proptest! {
        #[test]
        fn a_grant_opens_one_destination_and_its_end_closes_it(host in 0u8..4, listed in 0u8..4) {
            let (host, listed) = (format!("h{host}.example"), format!("h{listed}.example"));
            let rules = asking(&[&listed]);
            let destination = NetworkDestination::Name(host.clone());
            let open = opened(&rules, &destination);
            let allows = |rules: &NetworkRules, name: &str| {
                Policy::check(rules).unwrap().name_verdict(name).allowed
            };
            prop_assert!(allows(&open, &host));
            for other in 0..4 {
                let other = format!("h{other}.example");
                prop_assert_eq!(allows(&open, &other), other == host || other == listed);
            }
            prop_assert_eq!(&opened(&open, &destination), &open);
            prop_assert!(!allows(&closed(&open, &destination), &host));
        }

        #[test]
        fn a_granted_address_is_open_and_no_other(last in 1u8..250) {
            let address = Ipv4Addr::new(192, 0, 2, last);
            let open = opened(&asking(&[]), &NetworkDestination::Address(address));
            let policy = Policy::check(&open).unwrap();
            for other in [last, last + 1] {
                let address = Ipv4Addr::new(192, 0, 2, other);
                let destination = Destination { address: address.into(), is_host: false, names: &[] };
                let flow = Flow { destination, port: 443, protocol: NetworkProtocol::Tcp };
                prop_assert_eq!(policy.verdict(&flow).allowed, other == last);
            }
        }
    }
}
