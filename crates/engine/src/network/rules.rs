//! What a workspace may reach after a change.

use std::sync::Arc;

use agentiso_core::action::PackageHost;
use agentiso_core::approval::{ApprovalState, Asked, NetworkDestination};
use agentiso_core::{Ask, Code, Failure, NetworkChange, NetworkPreset, NetworkRules, WorkspaceId, nearest};
use agentiso_policy::egress::{Policy, widens};

use super::asking::opened;
use super::packages;
use crate::{Caller, Engine};

/// How many requests are read to find those that were granted always.
const GRANTS: u32 = 10_000;

/// Rules after a change, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRules {
    pub rules: NetworkRules,
    /// The hosts that package managers are configured for, if a preset asked them.
    pub package_hosts: Vec<PackageHost>,
    /// Whether a preset wants to know what the package managers of the workspace are configured for.
    pub asks_packages: bool,
}

impl Engine {
    /// The rules of a workspace that is created without any.
    pub(crate) fn default_rules(&self) -> NetworkRules {
        self.settings.network.default_rules.clone()
    }

    /// The rules after a change, if the caller may make it. Nothing is changed. The package managers of the host are asked
    /// if a preset needs that, those of the workspace only if it runs.
    pub(crate) async fn rules_after(
        self: &Arc<Self>,
        caller: &Caller,
        old: &NetworkRules,
        change: &NetworkChange,
        running: Option<WorkspaceId>,
    ) -> Result<NewRules, Failure> {
        let mut new = NewRules { rules: old.clone(), ..NewRules::default() };
        if let Some(name) = &change.preset {
            let preset = self.preset(name)?;
            new.rules = preset.apply(old);
            if preset.packages {
                new.asks_packages = true;
                new.package_hosts = packages::of_host(&*self.packages).await?;
                if let Some(running) = running {
                    new.package_hosts.extend(packages::of_workspace(self, running).await?);
                    new.package_hosts.sort();
                }
                packages::allow(&mut new.rules, &new.package_hosts);
            }
        }
        new.rules = change.apply(&new.rules);
        if new.rules.ask != Ask::Off {
            for destination in self.always_granted().await? {
                new.rules = opened(&new.rules, &destination);
            }
        }
        Policy::check(&new.rules)?;
        self.require_no_wider(caller, old, &new.rules)?;
        Ok(new)
    }

    /// Refuses rules that allow more than others, if the caller may not allow more by itself.
    pub(crate) fn require_no_wider(
        &self,
        caller: &Caller,
        old: &NetworkRules,
        new: &NetworkRules,
    ) -> Result<(), Failure> {
        let is_bound = self.settings.network.ask && !caller.is_operator();
        if is_bound && widens(&Policy::check(old)?, &Policy::check(new)?) {
            return Err(Failure::new(
                Code::ApprovalRequired,
                "a session may not allow its workspaces to reach more: the operator decides on each destination",
            )
            .with_remedy(
                "connect to the destination from the workspace, which raises a request; inbox list shows it, and the \
                 operator answers it",
            ));
        }
        Ok(())
    }

    /// Adds what the package managers of a new workspace are configured for, if a preset wants that.
    pub(crate) async fn add_packages_of(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        mut new: NewRules,
    ) -> Result<NewRules, Failure> {
        if !new.asks_packages {
            return Ok(new);
        }
        let before = new.rules.clone();
        new.package_hosts.extend(packages::of_workspace(self, workspace).await?);
        new.package_hosts.sort();
        packages::allow(&mut new.rules, &new.package_hosts);
        if new.rules != before {
            new.rules = self.host.set_network(workspace, &new.rules).await?.rules;
        }
        Ok(new)
    }

    fn preset(&self, name: &str) -> Result<&NetworkPreset, Failure> {
        let presets = &self.settings.network.presets;
        presets.get(name).ok_or_else(|| {
            let known = presets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let name: String = name.chars().take(64).collect();
            let failure = Failure::new(Code::InvalidArgument, format!("there is no preset {name:?}"));
            match nearest(&name, presets.keys().map(String::as_str)) {
                Some(near) => failure.with_remedy(format!("did you mean {near:?}? presets: {known}")),
                None => failure.with_remedy(format!("presets: {known}; [network.presets] adds others")),
            }
        })
    }

    /// The destinations that were granted for all workspaces that ask.
    pub(super) async fn always_granted(&self) -> Result<Vec<NetworkDestination>, Failure> {
        let granted = self.records.approvals(Some(ApprovalState::Granted), GRANTS).await?;
        let always = granted.into_iter().filter(|one| one.is_for_all());
        Ok(always
            .filter_map(|one| match one.asked {
                Asked::Network { destination } => Some(destination),
                Asked::Command { .. } | Asked::FileChange { .. } | Asked::VaultCommand { .. } => None,
            })
            .collect())
    }
}
