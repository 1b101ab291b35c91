//! The user's own login for a registry.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde::Deserialize;

/// A user name and a password.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: std::collections::HashMap<String, DockerAuth>,
}

#[derive(Deserialize)]
struct DockerAuth {
    auth: Option<String>,
}

/// The user's docker configuration, if there is one: `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`.
#[expect(clippy::disallowed_methods, reason = "one stat, before a pull that takes seconds")]
pub fn docker_config() -> Option<PathBuf> {
    let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let dir = dir.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker")))?;
    Some(dir.join("config.json")).filter(|file| file.is_file())
}

/// The login that a docker configuration contains for a registry, if any. Credential helpers are not supported.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
pub(super) fn find(config: Option<&Path>, registry: &str) -> Option<Login> {
    let config: DockerConfig = serde_json::from_slice(&std::fs::read(config?).ok()?).ok()?;
    let names = match registry {
        "index.docker.io" | "docker.io" => {
            vec!["https://index.docker.io/v1/", "docker.io", "index.docker.io"]
        }
        other => vec![other],
    };
    let auth = names.iter().find_map(|name| config.auths.get(*name)?.auth.as_deref())?;
    let plain = base64::engine::general_purpose::STANDARD.decode(auth).ok()?;
    let (user, password) = std::str::from_utf8(&plain).ok()?.split_once(':')?;
    Some(Login { user: user.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_login_is_found_and_nonsense_is_anonymous() {
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            config.path(),
            r#"{"auths":{"r.example:5000":{"auth":"YW5uOnMzY3JldDp4"},"h.example":{}}}"#,
        )
        .unwrap();
        let login = find(Some(config.path()), "r.example:5000").unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("ann", "s3cret:x"));
        for (config, registry) in
            [(Some(config.path()), "h.example"), (Some(config.path()), "o.example"), (None, "x")]
        {
            assert!(find(config, registry).is_none());
        }
    }
}
