//! Secrets. Only the operator may store, list, remove and grant them: a session works inside workspaces, which must not
//! decide what they may use.

use agentiso_core::action::forms::MAX_WORKSPACE_SECRETS;
use agentiso_core::action::{
    SecretBrief, SecretGrant, SecretList, SecretListed, SecretRemove, SecretRemoved, SecretSet, SecretStored,
    SecretsGranted,
};
use agentiso_core::ports::host::{NewSecret, SecretView};
use agentiso_core::{Code, Failure};

use super::variable_name;
use crate::act::Context;
use crate::{Access, Perform};

impl Context {
    pub(super) fn require_operator(&self) -> Result<(), Failure> {
        if self.caller.is_operator() {
            return Ok(());
        }
        Err(Failure::new(Code::NotPermitted, "only the operator may use secrets' names, hosts and grants")
            .with_remedy("ask the operator to run `agentiso secret`"))
    }
}

impl Perform for SecretSet {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<SecretStored, Failure> {
        context.require_operator()?;
        variable_name(&self.name)?;
        let Self { name, value, hosts, headers } = self;
        let secret = NewSecret { name, value, hosts, headers };
        let replaced = context.engine.host.set_secret(&secret).await?;
        Ok(SecretStored { name: secret.name, hosts: secret.hosts, replaced })
    }

    fn changed(outcome: &SecretStored) -> Option<String> {
        Some(format!("secret {}", outcome.name))
    }
}

impl Perform for SecretList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<SecretListed, Failure> {
        context.require_operator()?;
        let brief = |view: SecretView| {
            let SecretView { name, hosts, headers, workspaces } = view;
            SecretBrief { name, hosts, headers, workspaces }
        };
        let secrets: Vec<SecretBrief> = context.engine.host.secrets().await?.into_iter().map(brief).collect();
        Ok(SecretListed { count: secrets.len(), secrets })
    }
}

impl Perform for SecretRemove {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<SecretRemoved, Failure> {
        context.require_operator()?;
        let removed = context.engine.host.remove_secret(&self.name).await?;
        Ok(SecretRemoved { name: self.name, removed })
    }

    fn changed(outcome: &SecretRemoved) -> Option<String> {
        outcome.removed.then(|| format!("secret {} removed", outcome.name))
    }
}

impl Perform for SecretGrant {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<SecretsGranted, Failure> {
        context.require_operator()?;
        if self.secrets.len() > MAX_WORKSPACE_SECRETS {
            let message = format!("a workspace can use at most {MAX_WORKSPACE_SECRETS} secrets");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let id = context.workspace()?.id;
        context.engine.host.grant_secrets(id, &self.secrets).await?;
        let secrets = context.engine.host.granted_secrets(id).await?;
        Ok(SecretsGranted { workspace_id: id.to_string(), secrets })
    }

    fn changed(outcome: &SecretsGranted) -> Option<String> {
        Some(outcome.secrets.join(", ")).filter(|names| !names.is_empty()).or(Some("no secrets".to_owned()))
    }
}
