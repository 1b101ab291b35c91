//! The machine's environment.

use agentiso_proto::{Request, Response, check_name};

use super::{Guest, LinkError};

impl Guest {
    /// Sets variables that every later command and job of the machine gets, below those of its own request; a variable
    /// without a value is removed. Returns how many there are now. If one of them is refused, nothing changes.
    pub async fn set_env(&self, changes: Vec<(String, Option<String>)>) -> Result<u32, LinkError> {
        self.needs_version(2).await?;
        let changes = changes.into_iter().map(|(name, value)| (name, value.map(Into::into))).collect();
        match self.call(Request::SetEnv { changes }).await? {
            (Response::EnvSet { variables }, _) => Ok(variables),
            (other, guest) => Err(guest.mismatch(&other)),
        }
    }

    /// The variables set so, sorted by name.
    pub async fn env(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.needs_version(2).await?;
        match self.call(Request::GetEnv).await? {
            (Response::Env(variables), guest) => match variables
                .iter()
                .find(|(name, _)| check_name(name).is_err())
            {
                None => Ok(variables.into_iter().map(|(name, value)| (name, value.into_string())).collect()),
                Some(_) => Err(guest.violation("a variable with a name none can have")),
            },
            (other, guest) => Err(guest.mismatch(&other)),
        }
    }
}
