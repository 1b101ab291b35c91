//! Secrets, kept in memory.

use std::collections::BTreeMap;

use agentiso_core::ports::host::{NewSecret, SecretHost, SecretView};
use agentiso_core::{Code, Failure, WorkspaceId};
use async_trait::async_trait;

use super::state::{FakeHost, HostCall};
use crate::fake::machine::locked;

/// The secrets of a host, and who may use them.
#[derive(Default)]
pub(super) struct FakeSecrets {
    all: BTreeMap<String, NewSecret>,
    granted: BTreeMap<WorkspaceId, Vec<String>>,
}

#[async_trait]
impl SecretHost for FakeHost {
    async fn set_secret(&self, secret: &NewSecret) -> Result<bool, Failure> {
        self.pass(HostCall::SetSecret).await?;
        Ok(locked(&self.inner.secrets).all.insert(secret.name.clone(), secret.clone()).is_some())
    }

    async fn secrets(&self) -> Result<Vec<SecretView>, Failure> {
        self.pass(HostCall::Secrets).await?;
        let secrets = locked(&self.inner.secrets);
        let view = |secret: &NewSecret| SecretView {
            name: secret.name.clone(),
            hosts: secret.hosts.clone(),
            headers: secret.headers.clone(),
            workspaces: secrets.granted.values().filter(|names| names.contains(&secret.name)).count(),
        };
        Ok(secrets.all.values().map(view).collect())
    }

    async fn remove_secret(&self, name: &str) -> Result<bool, Failure> {
        self.pass(HostCall::RemoveSecret).await?;
        let mut secrets = locked(&self.inner.secrets);
        secrets.granted.values_mut().for_each(|names| names.retain(|known| known != name));
        Ok(secrets.all.remove(name).is_some())
    }

    async fn grant_secrets(&self, id: WorkspaceId, names: &[String]) -> Result<(), Failure> {
        self.pass(HostCall::GrantSecrets).await?;
        self.view(id)?;
        let mut secrets = locked(&self.inner.secrets);
        if let Some(unknown) = names.iter().find(|name| !secrets.all.contains_key(*name)) {
            return Err(Failure::new(Code::SecretNotFound, format!("there is no secret '{unknown}'")));
        }
        secrets.granted.insert(id, names.to_vec());
        Ok(())
    }

    async fn granted_secrets(&self, id: WorkspaceId) -> Result<Vec<String>, Failure> {
        self.pass(HostCall::GrantedSecrets).await?;
        Ok(locked(&self.inner.secrets).granted.get(&id).cloned().unwrap_or_default())
    }

    async fn guest_variables(&self, id: WorkspaceId) -> Result<Vec<(String, String)>, Failure> {
        self.pass(HostCall::GuestVariables).await?;
        let secrets = locked(&self.inner.secrets);
        let names = secrets.granted.get(&id).into_iter().flatten();
        Ok(names.map(|name| (name.clone(), format!("placeholder_of_{name}"))).collect())
    }
}
