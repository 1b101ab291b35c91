//! Named sets of network rules.

use std::collections::BTreeMap;

use agentiso_core::{Ask, Egress, NetworkChange, NetworkPreset};
use serde::{Deserialize, Deserializer, Serialize};

/// The presets: those that are shipped, unless the file has one of the same name, and those of the file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Presets(BTreeMap<String, Preset>);

/// A named set of network rules. What is absent is reset, if it is about the internet, or else kept.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preset {
    /// Whether the internet can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_internet: Option<bool>,
    /// Names that can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_domains: Option<Vec<String>>,
    /// Names that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_domains: Option<Vec<String>>,
    /// Addresses and ranges that can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_cidrs: Option<Vec<String>>,
    /// Addresses and ranges that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_cidrs: Option<Vec<String>>,
    /// Whether workspaces of the same group can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_inter_vm: Option<bool>,
    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// Ports on which other workspaces reach this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_ports: Option<Vec<u16>>,
    /// How connections leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// What happens when a destination is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// Also allows the hosts that the package managers of host and workspace are configured for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub packages: bool,
}

impl Default for Presets {
    fn default() -> Self {
        let off = Preset { allow_internet: Some(false), ..Preset::default() };
        let open = Preset { allow_internet: Some(true), ..Preset::default() };
        let packages = Preset { allow_domains: Some(Vec::new()), packages: true, ..open.clone() };
        let shipped = [("off", off), ("open", open), ("packages", packages)];
        Self(shipped.into_iter().map(|(name, preset)| (name.to_owned(), preset)).collect())
    }
}

impl<'de> Deserialize<'de> for Presets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let own = BTreeMap::<String, Preset>::deserialize(deserializer)?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        for name in own.keys() {
            if name.is_empty() || name.len() > 63 || !name.bytes().all(allowed) {
                return Err(serde::de::Error::custom(format!(
                    "{name:?} is not a name of a preset: use 1 to 63 letters, digits, '-', '_' or '.'"
                )));
            }
        }
        let mut presets = Self::default();
        presets.0.extend(own);
        Ok(presets)
    }
}

impl Presets {
    /// The presets as the engine applies them.
    pub(super) fn resolved(&self) -> BTreeMap<String, NetworkPreset> {
        self.0.iter().map(|(name, preset)| (name.clone(), preset.resolved())).collect()
    }
}

impl Preset {
    fn resolved(&self) -> NetworkPreset {
        let preset = self.clone();
        NetworkPreset {
            change: NetworkChange {
                preset: None,
                allow_internet: preset.allow_internet,
                allow_domains: preset.allow_domains,
                deny_domains: preset.deny_domains,
                allow_cidrs: preset.allow_cidrs,
                deny_cidrs: preset.deny_cidrs,
                allow_inter_vm: preset.allow_inter_vm,
                groups: preset.groups,
                allowed_ports: preset.allowed_ports,
                egress: preset.egress,
                // A preset is about hosts; rules on their requests belong to a workspace.
                http_rules: None,
                ask: preset.ask,
            },
            packages: preset.packages,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::parse;

    #[test]
    fn presets_of_the_file_are_added_to_those_that_are_shipped() {
        let text = "[network.presets.ci]\nallow_internet = true\nallow_domains = [\"a.example\"]\npackages = true\n\
                    [network.presets.open]\nallow_internet = true\ndeny_domains = [\"b.example\"]\n";
        let presets = parse(text, Path::new("c")).unwrap().network.engine_settings().presets;
        assert_eq!(presets.keys().collect::<Vec<_>>(), ["ci", "off", "open", "packages"]);
        assert!(presets["ci"].packages);
        assert_eq!(presets["open"].change.deny_domains, Some(vec!["b.example".to_owned()]));
        assert_eq!(presets["off"].change.allow_internet, Some(false));
    }

    #[test]
    fn a_wrong_preset_is_refused_with_its_line() {
        for (text, reason) in [
            ("[network.presets.ci]\nallow_internt = true\n", "c:2: the file: unknown field `allow_internt`"),
            ("[network.presets.\"a b\"]\n", "\"a b\" is not a name of a preset"),
            ("[network]\npresets = 3\n", "c:2: network.presets: "),
        ] {
            let refused = parse(text, Path::new("c")).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn asking_for_every_destination_starts_with_nothing_allowed() {
        let rules = |text: &str| parse(text, Path::new("c")).unwrap().network.engine_settings().default_rules;
        assert!(rules("").is_off());
        assert!(rules("[network]\ndefault_allow_internet = true\n").allow_internet);
        let asking = rules("[network]\nask = true\n");
        assert_eq!((asking.allow_internet, asking.allow_domains), (true, Some(Vec::new())));
    }
}
