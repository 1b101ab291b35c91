//! The policy of a workspace, as users write it and as it is enforced.

use std::collections::BTreeSet;

use agentiso_core::{Ask, Egress, HttpRule, NetworkRules};
use serde::{Deserialize, Serialize};

use super::requests::RequestRule;
use super::{Cidr, ClosedRange, DomainPattern, PolicyError, Reason};

/// A list may hold this many entries: every flow is compared with all of them.
const MAX_ENTRIES: usize = 1024;
const MAX_GROUP: usize = 63;
/// The group of workspaces that name none.
const DEFAULT_GROUP: &str = "default";

/// A checked policy.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "NetworkRules", into = "NetworkRules")]
pub struct Policy {
    pub(super) allow_internet: bool,
    pub(super) allow_inter_vm: bool,
    pub(super) groups: BTreeSet<String>,
    pub(super) allowed_ports: Option<BTreeSet<u16>>,
    pub(super) allow_domains: Option<Vec<DomainPattern>>,
    pub(super) deny_domains: Vec<DomainPattern>,
    pub(super) allow_cidrs: Option<Vec<Cidr>>,
    pub(super) deny_cidrs: Vec<Cidr>,
    pub(super) egress: Egress,
    pub(super) ask: Ask,
    pub(super) http_rules: Vec<RequestRule>,
}

impl Policy {
    /// How connections leave the workspace.
    pub fn egress(&self) -> Egress {
        self.egress
    }

    /// What happens when a destination is refused.
    pub fn ask(&self) -> Ask {
        self.ask
    }

    /// Checks a policy as a whole; the first entry that is wrong is reported.
    pub fn check(spec: &NetworkRules) -> Result<Self, PolicyError> {
        let mut groups: BTreeSet<String> =
            checked("groups", &spec.groups, |group| check_group(group))?.into_iter().collect();
        if groups.is_empty() {
            groups.insert(DEFAULT_GROUP.to_owned());
        }
        let allowed_ports = match &spec.allowed_ports {
            Some(ports) => Some(checked("allowed_ports", ports, check_port)?.into_iter().collect()),
            None => None,
        };
        let domains = |field, list: &[String]| checked(field, list, |text| DomainPattern::parse(text));
        let allow_cidrs = match &spec.allow_cidrs {
            Some(list) => Some(checked("allow_cidrs", list, |text| check_opened(text))?),
            None => None,
        };
        Ok(Self {
            allow_internet: spec.allow_internet,
            allow_inter_vm: spec.allow_inter_vm,
            groups,
            allowed_ports,
            allow_domains: match &spec.allow_domains {
                Some(list) => Some(domains("allow_domains", list)?),
                None => None,
            },
            deny_domains: domains("deny_domains", &spec.deny_domains)?,
            allow_cidrs,
            deny_cidrs: checked("deny_cidrs", &spec.deny_cidrs, |text| Cidr::parse(text))?,
            egress: spec.egress,
            ask: spec.ask,
            http_rules: checked("http_rules", &spec.http_rules, |rule| match spec.egress {
                Egress::Proxy => RequestRule::check(rule),
                Egress::Direct => Err(Reason::NeedsProxy),
            })?,
        })
    }
}

impl TryFrom<NetworkRules> for Policy {
    type Error = PolicyError;

    fn try_from(spec: NetworkRules) -> Result<Self, PolicyError> {
        Self::check(&spec)
    }
}

impl From<Policy> for NetworkRules {
    fn from(policy: Policy) -> Self {
        fn texts<T: ToString>(list: Vec<T>) -> Vec<String> {
            list.iter().map(T::to_string).collect()
        }
        Self {
            allow_internet: policy.allow_internet,
            allow_inter_vm: policy.allow_inter_vm,
            groups: policy.groups.into_iter().collect(),
            allowed_ports: policy.allowed_ports.map(|ports| ports.into_iter().collect()),
            allow_domains: policy.allow_domains.map(texts),
            deny_domains: texts(policy.deny_domains),
            allow_cidrs: policy.allow_cidrs.map(texts),
            deny_cidrs: texts(policy.deny_cidrs),
            egress: policy.egress,
            ask: policy.ask,
            http_rules: policy.http_rules.into_iter().map(HttpRule::from).collect(),
        }
    }
}

fn checked<E: ToString, T>(
    field: &'static str,
    list: &[E],
    check: impl Fn(&E) -> Result<T, Reason>,
) -> Result<Vec<T>, PolicyError> {
    let one = |(index, entry): (usize, &E)| {
        let result = if index < MAX_ENTRIES { check(entry) } else { Err(Reason::TooMany(MAX_ENTRIES)) };
        result.map_err(|reason| PolicyError { field, index, entry: shortened(&entry.to_string()), reason })
    };
    list.iter().enumerate().map(one).collect()
}

/// An entry as an error shows it: what is wrong is visible in the first characters.
fn shortened(entry: &str) -> String {
    entry.chars().take(80).collect()
}

fn check_group(group: &str) -> Result<String, Reason> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if group.is_empty() || group.len() > MAX_GROUP || !group.bytes().all(allowed) {
        return Err(Reason::NotAGroup);
    }
    Ok(group.to_owned())
}

fn check_port(port: &u16) -> Result<u16, Reason> {
    if *port == 0 { Err(Reason::NotAPort) } else { Ok(*port) }
}

/// A range that may be opened: none that lies in a range that is never reachable.
fn check_opened(text: &str) -> Result<Cidr, Reason> {
    let cidr = Cidr::parse(text)?;
    match ClosedRange::of(cidr.first()) {
        Some((kind, range)) if kind.is_never_reachable() && cidr.is_within(&range) => {
            Err(Reason::NeverReachable(kind))
        }
        _ => Ok(cidr),
    }
}

#[cfg(test)]
mod tests {
    use agentiso_core::{Code, Explain};

    use super::*;

    fn refused(json: &str) -> String {
        serde_json::from_str::<Policy>(json).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_keeps_its_written_form() {
        let text = r#"{"allow_internet":true,"allow_inter_vm":true,"groups":["blue"],"allowed_ports":[80,443],"allow_domains":["*.example.com"],"deny_domains":["bad.example.com"],"allow_cidrs":["10.1.0.0/16"],"deny_cidrs":["192.0.2.1/32"]}"#;
        let policy: Policy = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    }

    #[test]
    fn an_empty_list_is_not_the_same_as_no_list() {
        let spec: NetworkRules = serde_json::from_str(r#"{"allow_domains":[]}"#).unwrap();
        assert_eq!(spec.allow_domains, Some(Vec::new()));
        assert_eq!(Policy::check(&spec).unwrap().allow_domains, Some(Vec::new()));
        assert_eq!(Policy::check(&NetworkRules::default()).unwrap().allow_domains, None);
    }

    #[test]
    fn the_wrong_entry_is_named_with_its_position() {
        assert!(
            refused(r#"{"allow_domains":["a.example","b..example"]}"#)
                .starts_with("allow_domains[1]: 'b..example' has a label that is empty")
        );
        assert!(
            refused(r#"{"allow_cidrs":["127.0.0.0/8"]}"#)
                .starts_with("allow_cidrs[0]: '127.0.0.0/8' is a loopback address, which cannot be opened")
        );
        assert!(refused(r#"{"allow_cidrs":["224.0.0.251"]}"#).contains("a multicast address"));
        assert!(refused(r#"{"deny_cidrs":["10.0.0.1/8"]}"#).contains("an address within 10.0.0.0/8"));
        assert!(refused(r#"{"allowed_ports":[80,0]}"#).starts_with("allowed_ports[1]: '0' is not a port"));
        assert!(refused(r#"{"groups":["a b"]}"#).starts_with("groups[0]: 'a b' is not a group name"));
        assert!(refused(r#"{"allow_internt":true}"#).contains("unknown field `allow_internt`"));
        assert!(refused(r#"{"allowed_ports":[70000]}"#).contains("70000"));
    }

    #[test]
    fn a_refusal_says_what_to_do_instead() {
        let remedy = |reason| {
            PolicyError { field: "allow_domains", index: 0, entry: String::new(), reason }.remedy().unwrap()
        };
        assert!(remedy(Reason::IsAddress).contains("allow_cidrs"));
        assert!(remedy(Reason::Everything).contains("allow_internet"));
        assert!(remedy(Reason::HostBits("10.0.0.0/8".to_owned())).contains("10.0.0.0/8"));
        assert!(remedy(Reason::NeverReachable(ClosedRange::Loopback)).contains("port forward"));
        let error =
            Policy::check(&NetworkRules { deny_cidrs: vec!["x".to_owned()], ..NetworkRules::default() });
        assert_eq!(error.unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_list_has_a_limit() {
        let spec = NetworkRules {
            deny_domains: vec!["a.example".to_owned(); MAX_ENTRIES + 1],
            ..NetworkRules::default()
        };
        assert_eq!(Policy::check(&spec).unwrap_err().reason, Reason::TooMany(MAX_ENTRIES));
    }

    #[test]
    fn a_wide_range_that_includes_loopback_is_accepted_but_opens_no_closed_range() {
        let spec =
            NetworkRules { allow_cidrs: Some(vec!["0.0.0.0/0".to_owned()]), ..NetworkRules::default() };
        assert!(Policy::check(&spec).is_ok());
    }
}
