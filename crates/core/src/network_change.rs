//! Changes of network rules, as callers request them and as presets name them.

use crate::{Ask, Egress, NetworkRules};

/// Declares a struct with the parameters that change network rules, after others.
macro_rules! with_network_changes {
    (
        $(#[$about:meta])*
        pub struct $name:ident { $($(#[$field_about:meta])* pub $field:ident: $type:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(
            Clone, Debug, Default, serde::Deserialize, Eq, schemars::JsonSchema, PartialEq, serde::Serialize,
        )]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
            /// Start from a preset of the configuration: `off`, `packages` (package hosts only), `open`, or the
            /// operator's. The other fields change it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<crate::action::forms::PresetName>")]
            pub preset: Option<String>,
            /// Allow the internet, except private and host addresses. With allow_domains or allow_cidrs only those.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub allow_internet: Option<bool>,
            /// Names that can be reached: `example.com`, `*.example.com`. Replaces the list.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<crate::action::forms::DomainPatternText>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub allow_domains: Option<Vec<String>>,
            /// Names that cannot be reached; stronger than allow_domains.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<crate::action::forms::DomainPatternText>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub deny_domains: Option<Vec<String>>,
            /// IPv4 addresses and ranges that can be reached, also private ones: `10.1.0.0/16`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<crate::action::forms::AddressRange>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub allow_cidrs: Option<Vec<String>>,
            /// Addresses and ranges that cannot be reached; stronger than the allow lists.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<crate::action::forms::AddressRange>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub deny_cidrs: Option<Vec<String>>,
            /// Allow workspaces that share a group and allow it too.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub allow_inter_vm: Option<bool>,
            /// Groups of the workspace. Default: `default`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<crate::action::forms::GroupName>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub groups: Option<Vec<String>>,
            /// TCP ports on which other workspaces reach this one. Default: all.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(
                with = "Option<Vec<std::num::NonZeroU16>>",
                length(max = crate::action::forms::MAX_RULES)
            )]
            pub allowed_ports: Option<Vec<u16>>,
            /// `proxy`: through the egress proxy, which checks names in TLS and HTTP and inserts secrets.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub egress: Option<crate::Egress>,
            /// `refuse`: a refused destination raises a request for approval; `wait`: the connection also waits for the
            /// answer. Without allow_internet, starts with an empty allow_domains.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub ask: Option<crate::Ask>,
        }
    };
}
pub(crate) use with_network_changes;

with_network_changes! {
    /// A change of network rules. Absent fields keep their value.
    pub struct NetworkChange {}
}

impl NetworkChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it sets a list of what can be reached.
    pub fn sets_lists(&self) -> bool {
        self.preset.is_some() || self.allow_domains.is_some() || self.allow_cidrs.is_some()
    }

    /// The rules after this change, without its preset.
    pub fn apply(&self, rules: &NetworkRules) -> NetworkRules {
        let mut new = rules.clone();
        fn set<T: Clone>(field: &mut T, change: Option<&T>) {
            if let Some(change) = change {
                field.clone_from(change);
            }
        }
        fn set_list<T: Clone>(field: &mut Option<T>, change: Option<&T>) {
            if let Some(change) = change {
                *field = Some(change.clone());
            }
        }
        set(&mut new.allow_internet, self.allow_internet.as_ref());
        set_list(&mut new.allow_domains, self.allow_domains.as_ref());
        set(&mut new.deny_domains, self.deny_domains.as_ref());
        set_list(&mut new.allow_cidrs, self.allow_cidrs.as_ref());
        set(&mut new.deny_cidrs, self.deny_cidrs.as_ref());
        set(&mut new.allow_inter_vm, self.allow_inter_vm.as_ref());
        set(&mut new.groups, self.groups.as_ref());
        set_list(&mut new.allowed_ports, self.allowed_ports.as_ref());
        set(&mut new.egress, self.egress.as_ref());
        set(&mut new.ask, self.ask.as_ref());
        if self.ask.is_some_and(|ask| ask != Ask::Off) && !new.allow_internet && self.allow_internet.is_none()
        {
            new.allow_internet = true;
            new.allow_domains.get_or_insert_default();
        }
        new
    }
}

/// A named set of rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NetworkPreset {
    /// The rules it sets. Those about the internet that it does not set are reset.
    pub change: NetworkChange,
    /// Whether it also allows the hosts that package managers are configured for.
    pub packages: bool,
}

impl NetworkPreset {
    /// The rules of a workspace after the preset. What it does not say about other workspaces is kept.
    pub fn apply(&self, rules: &NetworkRules) -> NetworkRules {
        let reset = NetworkRules {
            allow_internet: false,
            allow_domains: None,
            deny_domains: Vec::new(),
            allow_cidrs: None,
            deny_cidrs: Vec::new(),
            egress: Egress::Direct,
            ask: Ask::Off,
            ..rules.clone()
        };
        self.change.apply(&reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|&text| text.to_owned()).collect())
    }

    #[test]
    fn absent_fields_keep_their_value_and_lists_are_replaced() {
        let change: NetworkChange = serde_json::from_str(
            r#"{"allow_internet":true,"allow_domains":["a.example"],"deny_cidrs":["192.0.2.0/24"],"groups":["blue"]}"#,
        )
        .unwrap();
        let first = change.apply(&NetworkRules::default());
        let again = NetworkChange { allow_domains: texts(&["b.example"]), ..NetworkChange::default() };
        let second = again.apply(&first);
        assert_eq!(second, NetworkRules { allow_domains: texts(&["b.example"]), ..first.clone() });
        assert_eq!(NetworkChange::default().apply(&second), second);
        assert!(NetworkChange::default().is_empty() && !again.is_empty());
        assert!(serde_json::from_str::<NetworkChange>(r#"{"allow_internt":true}"#).is_err());
    }

    #[test]
    fn asking_opens_nothing_by_itself() {
        let ask = NetworkChange { ask: Some(Ask::Refuse), ..NetworkChange::default() };
        let asked = ask.apply(&NetworkRules::default());
        assert_eq!((asked.allow_internet, asked.allow_domains.clone()), (true, Some(Vec::new())));
        let off = NetworkChange { allow_internet: Some(false), ..ask.clone() };
        assert!(off.apply(&NetworkRules::default()).is_off());
        let open = NetworkRules { allow_internet: true, ..NetworkRules::default() };
        assert_eq!(ask.apply(&open).allow_domains, None, "what is open stays open");
    }

    #[test]
    fn a_preset_replaces_the_rules_about_the_internet_and_keeps_those_about_neighbours() {
        let rules = NetworkRules {
            allow_internet: true,
            allow_domains: texts(&["a.example"]),
            deny_cidrs: vec!["192.0.2.0/24".to_owned()],
            ask: Ask::Refuse,
            allow_inter_vm: true,
            groups: vec!["blue".to_owned()],
            ..NetworkRules::default()
        };
        let off = NetworkPreset::default().apply(&rules);
        let neighbours =
            NetworkRules { allow_inter_vm: true, groups: rules.groups, ..NetworkRules::default() };
        assert_eq!(off, neighbours);
    }
}
