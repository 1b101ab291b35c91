//! What the egress proxy needs of a workspace: its authority, which its guest trusts, and its secrets.
//!
//! ```text
//!  attached, rules changed, secrets granted ──► authority made, if requests have to be seen
//!                                                  └─► guest trusts it ──► router gets it, with the secrets
//! ```

use std::time::Duration;

use agentiso_core::{Egress, Failure, NetworkRules, Secret, WorkspaceId};
use agentiso_meta::Workspace;
use agentiso_net::egress::{AuthorityKey, GrantedSecret, ProxySetup, create_authority};
use agentiso_secrets::{Authority, StoredSecret};
use agentiso_vmm::link::LinkError;
use agentiso_vmm::{Machine, VmError};

use super::Workspaces;
use crate::trust;

/// How long an agent may take to store the certificate.
const TRUST_LIMIT: Duration = Duration::from_secs(180);

impl Workspaces {
    /// Makes the guest trust its proxy, or distrust one that it does not have any more. Returns what the router needs.
    pub(crate) async fn prepare_trust(
        &self,
        id: WorkspaceId,
        machine: &Machine,
        rules: &NetworkRules,
    ) -> Result<ProxySetup, Failure> {
        let is_proxied = rules.egress == Egress::Proxy;
        let setup = if is_proxied { self.proxy_setup(id, rules).await? } else { ProxySetup::default() };
        match &setup.authority {
            Some(authority) => self.trust(id, machine, &authority.certificate).await?,
            None => self.distrust(id, machine).await?,
        }
        Ok(setup)
    }

    /// Prepares the proxy again, after the rules or the secrets of a workspace changed. It must be locked.
    pub(crate) async fn refresh_proxy(&self, workspace: &Workspace) -> Result<(), Failure> {
        let id = workspace.id;
        let has_authority = self.in_vault(move |vault| vault.authority(id)).await?.is_some();
        if workspace.network.rules.egress != Egress::Proxy && !has_authority {
            return Ok(());
        }
        let Some((_, machine)) = self.reach(workspace).await? else { return Ok(()) };
        let setup = self.prepare_trust(workspace.id, &machine, &workspace.network.rules).await;
        self.connections.leave(workspace.id, machine);
        match workspace.network.rules.egress {
            Egress::Proxy => self.net.set_proxy(workspace.id, setup?).await,
            Egress::Direct => setup.map(drop),
        }
    }

    /// Makes a guest trust its authority. If its files cannot be written, its programs report the certificate.
    async fn trust(&self, id: WorkspaceId, machine: &Machine, certificate: &str) -> Result<(), Failure> {
        let trusted = trust::install(machine.guest(), certificate);
        match machine.during("storing the certificate of its proxy", TRUST_LIMIT, trusted).await {
            Err(VmError::Link(error @ LinkError::Guest(_))) => {
                tracing::warn!(workspace = %id, %error, "a guest does not trust its proxy");
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Takes an authority out of a guest that does not need it any more.
    async fn distrust(&self, id: WorkspaceId, machine: &Machine) -> Result<(), Failure> {
        if self.in_vault(move |vault| vault.authority(id)).await?.is_none() {
            return Ok(());
        }
        let removed = trust::remove(machine.guest());
        match machine.during("removing the certificate of its proxy", TRUST_LIMIT, removed).await {
            Err(VmError::Link(error @ LinkError::Guest(_))) => {
                tracing::warn!(workspace = %id, %error, "a guest still trusts its proxy");
            }
            done => done?,
        }
        self.in_vault(move |vault| vault.drop_authority(id)).await
    }

    /// The authority, if any request has to be seen, and the secrets of a workspace.
    async fn proxy_setup(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<ProxySetup, Failure> {
        let granted = self.in_vault(move |vault| vault.granted(id)).await?;
        let secret = |(name, placeholder, stored): (String, String, StoredSecret)| {
            let StoredSecret { value, hosts, headers } = stored;
            GrantedSecret { name, placeholder, value, hosts, headers }
        };
        let secrets: Vec<GrantedSecret> = granted.into_iter().map(secret).collect();
        let authority = match secrets.is_empty() && rules.http_rules.is_empty() {
            true => None,
            false => Some(self.authority(id).await?),
        };
        Ok(ProxySetup { authority, secrets })
    }

    /// The authority of a workspace. It is made once, because guests keep the certificate.
    async fn authority(&self, id: WorkspaceId) -> Result<AuthorityKey, Failure> {
        let kept = match self.in_vault(move |vault| vault.authority(id)).await? {
            Some(kept) => kept,
            None => {
                let AuthorityKey { certificate, key } = create_authority(id)?;
                let new = Authority { certificate, key: Secret::new(key.into_exposed()) };
                self.in_vault(move |vault| vault.keep_authority(id, new)).await?
            }
        };
        Ok(AuthorityKey { certificate: kept.certificate, key: kept.key })
    }
}
