//! Rules on requests, as users write them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::forms::{HostPattern, HttpMethods, HttpPaths};
use crate::action::values::values;

/// A rule on the requests to a host.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRule {
    /// The host: `api.example.com`, or `*.example.com` for every name below it.
    #[schemars(with = "HostPattern")]
    pub host: String,
    /// Methods, such as `GET`. Default: every method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "HttpMethods")]
    pub methods: Vec<String>,
    /// Paths: `/v1` matches `/v1` and everything below it, `*` any part of one segment, `**` anything. Default: every
    /// path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "HttpPaths")]
    pub paths: Vec<String>,
    /// What happens to a request that matches.
    pub action: HttpAction,
}

impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            HttpAction::Allow => "allow",
            HttpAction::Deny => "deny",
        };
        write!(f, "{action} ")?;
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join(","))?;
        }
        f.write_str(&self.host)?;
        if !self.paths.is_empty() {
            write!(f, " {}", self.paths.join(","))?;
        }
        Ok(())
    }
}

values! {
    /// What happens to a request that a rule matches.
    HttpAction {
        /// It passes.
        Allow = "allow",
        /// It is refused.
        Deny = "deny",
    }
}
