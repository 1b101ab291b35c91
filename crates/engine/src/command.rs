//! From what a client says about a command to what is asked of a machine.

use std::collections::BTreeMap;

use agentiso_core::{Code, Failure};
use agentiso_runtime::OciDefaults;
use agentiso_runtime::guest::{Exec, User};
use serde::{Deserialize, Serialize};

/// The user's shell, as far as there is one.
const SHELL: [&str; 3] =
    ["/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi"];

/// A command to run while somebody listens.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interaction {
    /// Program and arguments; the user's shell if there are none.
    #[serde(default)]
    pub argv: Vec<Word>,
    /// Variables on top of the workspace's.
    #[serde(default)]
    pub env: BTreeMap<String, Word>,
    /// Directory it runs in.
    #[serde(default)]
    pub workdir: Option<String>,
    /// User it runs as: a name, or `UID[:GID]`.
    #[serde(default)]
    pub user: Option<String>,
    /// A terminal of so many columns and rows.
    #[serde(default)]
    pub tty: Option<(u16, u16)>,
    /// Whether it is given input.
    #[serde(default)]
    pub stdin: bool,
    /// Milliseconds after which it is ended.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// A word as the kernel knows it: text, as a rule, else numbers of bytes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// Text.
    Text(String),
    /// What is not text.
    Bytes(Vec<u8>),
}

impl Word {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// In text, whatever of it is.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl From<Vec<u8>> for Word {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

impl Interaction {
    /// What is asked of the machine.
    pub fn into_exec(self) -> Result<Exec, Failure> {
        if self.argv.iter().chain(self.env.values()).any(|word| word.as_bytes().contains(&0)) {
            return Err(Failure::new(Code::InvalidArgument, "a word of the command contains a zero byte"));
        }
        let argv: Vec<Vec<u8>> = match self.argv.is_empty() {
            true => SHELL.iter().map(|word| word.as_bytes().to_vec()).collect(),
            false => self.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        };
        let env = self.env.into_iter().map(|(name, value)| (name.into_bytes(), value.as_bytes().to_vec()));
        Ok(Exec {
            argv,
            env: env.collect(),
            workdir: self.workdir.map(String::into_bytes),
            user: self.user.as_deref().map(user).transpose()?,
            stdin: self.stdin,
            tty: self.tty,
            timeout_ms: self.timeout_ms,
        })
    }
}

/// Fills in what a caller left open and the image has an opinion on. Variables the workspace has of its own are none
/// of the image's business.
pub fn with_image_defaults(mut exec: Exec, defaults: &OciDefaults, own: &[String]) -> Exec {
    let from_image = defaults.env.iter().filter_map(|text| text.split_once('='));
    let wanted = from_image.filter(|(name, _)| !own.iter().any(|own| own == name));
    let mut env: Vec<_> = wanted.map(|(name, value)| (name.into(), value.into())).collect();
    env.append(&mut exec.env);
    exec.env = env;
    if exec.workdir.is_none() {
        exec.workdir =
            defaults.workdir.as_ref().filter(|dir| !dir.is_empty()).map(|dir| dir.clone().into_bytes());
    }
    if exec.user.is_none() {
        exec.user = defaults.user.as_deref().filter(|name| !name.is_empty()).and_then(|name| user(name).ok());
    }
    exec
}

/// A user name, or numbers.
fn user(text: &str) -> Result<User, Failure> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    match (user.parse::<u32>(), group.parse::<u32>()) {
        (Ok(uid), Ok(gid)) => Ok(User::Id { uid, gid }),
        (Ok(uid), Err(_)) if group.is_empty() => Ok(User::Id { uid, gid: uid }),
        (Err(_), _) if !user.is_empty() && group.is_empty() => Ok(User::Name(user.to_owned())),
        _ => Err(Failure::new(Code::InvalidArgument, "a user is a name, or UID[:GID] in numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        assert_eq!(user("alice").unwrap(), User::Name("alice".to_owned()));
        assert_eq!(user("1000").unwrap(), User::Id { uid: 1000, gid: 1000 });
        assert_eq!(user("1000:50").unwrap(), User::Id { uid: 1000, gid: 50 });
        for bad in ["", ":", "1000:staff", "alice:staff", ":5"] {
            assert!(user(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_that_are_not_text_travel_as_they_are() {
        let spec =
            Interaction { argv: vec![b"echo".to_vec().into(), vec![0xff, 1].into()], ..Default::default() };
        let sent = serde_json::to_string(&spec).unwrap();
        assert!(sent.contains(r#"["echo",[255,1]]"#), "{sent}");
        let exec = serde_json::from_str::<Interaction>(&sent).unwrap().into_exec().unwrap();
        assert_eq!(exec.argv, [b"echo".to_vec(), vec![0xff, 1]]);
        let zero = Interaction { argv: vec![vec![b'a', 0].into()], ..Default::default() };
        assert_eq!(zero.into_exec().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn callers_and_workspaces_win_over_the_image() {
        let image = OciDefaults {
            env: vec!["A=image".to_owned(), "B=image".to_owned(), "C=image".to_owned()],
            workdir: Some("/srv".to_owned()),
            user: Some("www".to_owned()),
            cmd: Vec::new(),
        };
        let asked = Exec { env: vec![(b"A".to_vec(), b"flag".to_vec())], ..Exec::default() };
        let exec = with_image_defaults(asked, &image, &["C".to_owned()]);
        assert_eq!(exec.env.last().unwrap().1, b"flag");
        assert_eq!(exec.env.len(), 3);
        assert_eq!(exec.workdir.unwrap(), b"/srv");
        assert_eq!(exec.user, Some(User::Name("www".to_owned())));
    }
}
