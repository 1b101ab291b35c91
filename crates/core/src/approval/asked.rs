//! What a request asks for.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::action::values::values;

/// The longest thing that can be asked for, in bytes of JSON.
pub const MAX_ASKED: usize = 64 << 10;

values! {
    /// What a request for approval is about.
    ApprovalKind {
        /// A destination that the network rules refuse.
        Network = "network",
        /// A command that the command policy does not allow.
        Command = "command",
        /// A change of files that needs approval.
        FileChange = "file_change",
    }
}

/// Exactly what is asked for. Two requests of a workspace are the same if these values are equal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Asked {
    /// To reach a destination on every port.
    Network {
        /// A domain name or an IPv4 address.
        destination: NetworkDestination,
    },
    /// To run a command.
    Command {
        /// The program and its arguments, or a shell with a command line.
        argv: Vec<String>,
        /// The directory it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workdir: Option<String>,
        /// The user it runs as.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
    /// To change a file.
    FileChange {
        /// Its absolute path.
        path: String,
        /// Identifies the new content.
        content_digest: String,
    },
    /// To run a command on the files of a vault.
    VaultCommand {
        /// The name of the vault.
        vault: String,
        /// The fork that it runs in, instead of the vault itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fork: Option<String>,
        /// The program and its arguments, or a shell with a command line.
        argv: Vec<String>,
        /// The directory it runs in, in the vault.
        workdir: String,
        /// Whether it cannot change the vault.
        #[serde(default)]
        readonly: bool,
        /// The names of the variables it is given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        variables: Vec<String>,
        /// Identifies the values of these variables and the standard input.
        inputs_digest: String,
    },
}

/// A destination: a name, or an address that no name was resolved to. In JSON it is a text.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NetworkDestination {
    /// A domain name in lower case, without a final dot.
    Name(String),
    /// An address.
    Address(Ipv4Addr),
}

impl From<String> for NetworkDestination {
    fn from(text: String) -> Self {
        text.parse().map_or(Self::Name(text), Self::Address)
    }
}

impl Serialize for NetworkDestination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NetworkDestination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Display for NetworkDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Asked {
    /// What it is about.
    pub fn kind(&self) -> ApprovalKind {
        match self {
            Self::Network { .. } => ApprovalKind::Network,
            Self::Command { .. } | Self::VaultCommand { .. } => ApprovalKind::Command,
            Self::FileChange { .. } => ApprovalKind::FileChange,
        }
    }

    /// The first part of the canonical form.
    fn tag(&self) -> &'static str {
        match self {
            Self::VaultCommand { .. } => "vault_command",
            _ => self.kind().as_str(),
        }
    }

    /// The bytes that a digest of it is made of. They never change for the same value: a stored digest is compared with
    /// those of later versions.
    pub fn canonical(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut part = |part: &str| {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        };
        part(self.tag());
        match self {
            Self::Network { destination: NetworkDestination::Name(name) } => {
                part("name");
                part(name);
            }
            Self::Network { destination: NetworkDestination::Address(address) } => {
                part("address");
                part(&address.to_string());
            }
            Self::Command { argv, workdir, user } => {
                argv.iter().for_each(|word| part(word));
                for (name, value) in [("workdir", workdir), ("user", user)] {
                    if let Some(value) = value {
                        part(name);
                        part(value);
                    }
                }
                // The number of words keeps an argument apart from a directory or user.
                part(&argv.len().to_string());
            }
            Self::FileChange { path, content_digest } => {
                part(path);
                part(content_digest);
            }
            Self::VaultCommand { vault, fork, argv, workdir, readonly, variables, inputs_digest } => {
                [vault, workdir, inputs_digest].into_iter().for_each(|text| part(text));
                part(if *readonly { "readonly" } else { "writable" });
                for list in [argv, variables] {
                    part(&list.len().to_string());
                    list.iter().for_each(|word| part(word));
                }
                fork.iter().for_each(|fork| part(fork));
            }
        }
        bytes
    }
}

/// In words, for people.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { destination } => write!(f, "connect to {destination}"),
            Self::Command { argv, workdir, user } => {
                write!(f, "run {}", shown(argv))?;
                if let Some(workdir) = workdir {
                    write!(f, " in {workdir}")?;
                }
                user.iter().try_for_each(|user| write!(f, " as {user}"))
            }
            Self::FileChange { path, .. } => write!(f, "change {path}"),
            Self::VaultCommand { vault, fork, argv, workdir, variables, .. } => {
                write!(f, "run {} in {} of the vault {vault}", shown(argv), shown_word(workdir))?;
                fork.iter().try_for_each(|fork| write!(f, ", in its fork {fork}"))?;
                // They can change what a command does: LD_PRELOAD, GIT_SSH_COMMAND, http_proxy.
                if variables.is_empty() {
                    Ok(())
                } else {
                    write!(f, ", with values for {}", shown(variables))
                }
            }
        }
    }
}

/// Words as one line that shows where each begins and ends, whatever is in them.
fn shown(words: &[String]) -> String {
    words.iter().map(|word| shown_word(word)).collect::<Vec<_>>().join(" ")
}

fn shown_word(word: &str) -> String {
    // Control characters, those that change the direction of text, and those that cannot be seen.
    let is_hidden = |c: char| !"'\"\\".contains(c) && c.escape_debug().len() > 1;
    if word.chars().any(is_hidden) {
        return format!("$'{}'", word.escape_debug());
    }
    let is_plain = |c: char| !c.is_whitespace() && !"'\"\\$`&|;<>()*?[]{}#!~".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Asked> {
        let word = "[a-b]{0,2}|workdir|user|[12]";
        prop_oneof![
            word.prop_map(|name| Asked::Network { destination: NetworkDestination::Name(name) }),
            (0u32..3).prop_map(|bits| Asked::Network {
                destination: NetworkDestination::Address(Ipv4Addr::from_bits(bits))
            }),
            (proptest::collection::vec(word, 0..4), proptest::option::of(word), proptest::option::of(word))
                .prop_map(|(argv, workdir, user)| Asked::Command { argv, workdir, user }),
            (word, word).prop_map(|(path, content_digest)| Asked::FileChange { path, content_digest }),
            (
                (word, word, word),
                proptest::option::of(word),
                proptest::collection::vec(word, 0..3),
                proptest::collection::vec(word, 0..3),
                any::<bool>(),
            )
                .prop_map(
                    |((vault, workdir, inputs_digest), fork, argv, variables, readonly)| {
                        Asked::VaultCommand { vault, fork, argv, workdir, readonly, variables, inputs_digest }
                    }
                ),
        ]
    }

    proptest! {
        #[test]
        fn only_equal_values_have_the_same_canonical_form(a in values(), b in values()) {
            prop_assert_eq!(a.canonical() == b.canonical(), a == b);
        }

        #[test]
        fn a_value_survives_its_json_form(value in values()) {
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Asked>(&json).unwrap(), value);
        }
    }

    #[test]
    fn what_is_shown_is_one_line_in_which_every_word_can_be_told_apart() {
        let command = |argv: &[&str], variables: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let (argv, variables) = (words(argv), words(variables));
            let (vault, workdir) = ("work".to_owned(), "/".to_owned());
            Asked::VaultCommand {
                vault,
                fork: None,
                argv,
                workdir,
                readonly: false,
                variables,
                inputs_digest: String::new(),
            }
            .to_string()
        };
        for (argv, text) in [
            (["curl", "-s", "https://a.example:9/?q=1"].as_slice(), "curl -s 'https://a.example:9/?q=1'"),
            (&["curl", "a b", ""], "curl 'a b' ''"),
            (&["echo", "it's"], r"echo 'it'\''s'"),
            (&["sh", "-c", "a\nb\u{1b}[2J"], r"sh -c $'a\nb\u{1b}[2J'"),
            (&["a\u{202e}b", "c\\d"], r"$'a\u{202e}b' 'c\d'"),
        ] {
            assert_eq!(command(argv, &[]), format!("run {text} in / of the vault work"));
        }
        let shown = command(&["curl"], &["LD_PRELOAD", "A"]);
        assert_eq!(shown, "run curl in / of the vault work, with values for LD_PRELOAD A");
    }

    /// Digests of these bytes are stored: change the code, not the sample.
    #[test]
    fn the_canonical_form_does_not_change() {
        let name = Asked::Network { destination: NetworkDestination::Name("a.example".to_owned()) };
        assert_eq!(
            name.canonical(),
            b"\x07\0\0\0\0\0\0\0network\x04\0\0\0\0\0\0\0name\x09\0\0\0\0\0\0\0a.example"
        );
    }
}
