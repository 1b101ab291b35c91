//! Secrets: kept in the vault, inserted by the router, trusted by guests.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentiso_blocking::off_thread;
use agentiso_core::ports::host::{NewSecret, SecretHost, SecretView};
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_net::egress::{GrantedSecret, check_secret};
use agentiso_secrets::{StoredSecret, Vault, VaultError};
use async_trait::async_trait;

use crate::trust;
use crate::workspaces::Workspaces;

#[async_trait]
impl SecretHost for Workspaces {
    async fn set_secret(&self, secret: &NewSecret) -> Result<bool, Failure> {
        let NewSecret { name, value, hosts, headers } = secret.clone();
        check_secret(&GrantedSecret {
            name: name.clone(),
            placeholder: "any_placeholder_is_good".to_owned(),
            value: value.clone(),
            hosts: hosts.clone(),
            headers: headers.clone(),
        })?;
        let stored = StoredSecret { value, hosts, headers };
        let replaced = self.in_vault(move |vault| vault.set(&name, stored)).await?;
        if replaced {
            self.refresh_users(&secret.name).await?;
        }
        Ok(replaced)
    }

    async fn secrets(&self) -> Result<Vec<SecretView>, Failure> {
        let all: BTreeMap<String, (StoredSecret, usize)> = self.in_vault(|vault| vault.list()).await?;
        let view = |(name, (secret, workspaces)): (String, (StoredSecret, usize))| {
            let StoredSecret { hosts, headers, .. } = secret;
            SecretView { name, hosts, headers, workspaces }
        };
        Ok(all.into_iter().map(view).collect())
    }

    async fn remove_secret(&self, name: &str) -> Result<bool, Failure> {
        let owned = name.to_owned();
        let Some(users) = self.in_vault(move |vault| vault.remove(&owned)).await? else { return Ok(false) };
        self.refresh_proxies(users).await?;
        Ok(true)
    }

    async fn grant_secrets(&self, id: WorkspaceId, names: &[String]) -> Result<(), Failure> {
        let (workspace, _lock) = self.lock(id).await?;
        let before = self.granted_secrets(id).await?;
        let names = names.to_vec();
        self.in_vault(move |vault| vault.grant(id, &names)).await?;
        let done = self.refresh_proxy(&workspace).await;
        if done.is_err() {
            self.in_vault(move |vault| vault.grant(id, &before)).await?;
        }
        done
    }

    async fn granted_secrets(&self, id: WorkspaceId) -> Result<Vec<String>, Failure> {
        let granted = self.in_vault(move |vault| vault.granted(id)).await?;
        Ok(granted.into_iter().map(|(name, ..)| name).collect())
    }

    async fn guest_variables(&self, id: WorkspaceId) -> Result<Vec<(String, String)>, Failure> {
        let (granted, authority) =
            self.in_vault(move |vault| Ok((vault.granted(id)?, vault.authority(id)?))).await?;
        let placeholders = granted.into_iter().map(|(name, placeholder, _)| (name, placeholder));
        let trusted = if authority.is_some() { trust::variables() } else { Vec::new() };
        Ok(trusted.into_iter().chain(placeholders).collect())
    }
}

impl Workspaces {
    /// Reads or changes the vault off the async threads.
    pub(crate) async fn in_vault<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, Failure> {
        let vault = Arc::clone(&self.vault);
        Ok(off_thread(move || work(&vault)).await?)
    }

    /// Gives the workspaces that may use a secret its new value.
    async fn refresh_users(&self, name: &str) -> Result<(), Failure> {
        let name = name.to_owned();
        let users = self.in_vault(move |vault| vault.users(&name)).await?;
        self.refresh_proxies(users).await
    }

    async fn refresh_proxies(&self, workspaces: Vec<WorkspaceId>) -> Result<(), Failure> {
        for id in workspaces {
            let (workspace, _lock) = match self.lock(id).await {
                Err(failure) if failure.code() == Code::WorkspaceNotFound => continue,
                locked => locked?,
            };
            self.refresh_proxy(&workspace).await?;
        }
        Ok(())
    }
}
