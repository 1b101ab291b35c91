//! Names of images, snapshots and workspaces.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{Code, Explain, resembles_id};

/// Declares a type of names. Names are checked when they are created.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:literal, $check:path, $pattern:expr, $but:expr, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The maximum length.
            pub const MAX: usize = $max;

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                $check($kind, name, Self::MAX).map(|()| Self(name.to_owned()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                name.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": $pattern,
                    "not": { "pattern": $but },
                    "maxLength": Self::MAX,
                    "examples": [$example],
                })
            }
        }
    };
}

/// A plain word, as [`check`] accepts it, unless it matches [`NOT_PLAIN`].
const PLAIN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const NOT_PLAIN: &str = r"\.\.";
/// A host name, as [`check_label`] accepts it, unless it matches [`LIKE_ID`].
const HOST_NAME: &str = "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$";
/// Six or more hex digits, or the beginning of a UUID beyond its first group, as [`resembles_id`] recognises them.
const LIKE_ID: &str = concat!(
    "^([0-9A-Fa-f]{6,}|[0-9A-Fa-f]{8}-([0-9A-Fa-f]{0,4}|[0-9A-Fa-f]{4}-([0-9A-Fa-f]{0,4}|",
    "[0-9A-Fa-f]{4}-([0-9A-Fa-f]{0,4}|[0-9A-Fa-f]{4}-[0-9A-Fa-f]{0,12}))))$",
);

name! {
    /// The name of an image: a plain word that is safe as a directory name.
    ImageName, "image", 128, check, PLAIN, NOT_PLAIN, "debian"
}

name! {
    /// The name of a snapshot, unique in its workspace.
    SnapshotName, "snapshot", 128, check, PLAIN, NOT_PLAIN, "before-upgrade"
}

name! {
    /// The name of a workspace. It is also the host name inside, so it is one label of letters, digits and hyphens.
    /// It never looks like an id.
    WorkspaceName, "workspace", 63, check_label, HOST_NAME, LIKE_ID, "web"
}

/// Such a name could be mistaken for a reference to another workspace.
const ID_LIKE: &str = "it looks like a workspace id or the beginning of one";

/// Why a name was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{name:?} is not a valid {kind} name: {reason}")]
pub struct NameError {
    kind: &'static str,
    name: String,
    reason: &'static str,
}

impl Explain for NameError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        Some(match self.kind {
            "workspace" if self.reason == ID_LIKE => {
                "add a letter beyond f: ids are written with the digits 0-9 and a-f only".to_owned()
            }
            "workspace" => {
                "use letters, digits and '-', starting and ending with a letter or digit".to_owned()
            }
            _ => "use letters, digits, '-', '_' and '.', starting with a letter or digit".to_owned(),
        })
    }
}

fn check(kind: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    let refuse = |reason| Err(NameError { kind, name: name.chars().take(max).collect(), reason });
    let Some(first) = name.chars().next() else {
        return refuse("it is empty");
    };
    if name.len() > max {
        return refuse("it is too long");
    }
    if !first.is_ascii_alphanumeric() {
        return refuse("it must start with a letter or digit");
    }
    if name.contains("..") {
        return refuse("it contains '..'");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return refuse("it contains a character that is not allowed");
    }
    Ok(())
}

fn check_label(kind: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    check(kind, name, max)?;
    let refuse = |reason| Err(NameError { kind, name: name.to_owned(), reason });
    if name.contains(['_', '.']) {
        return refuse("it contains a character that a host name must not have");
    }
    if name.ends_with('-') {
        return refuse("it must end with a letter or digit");
    }
    if resembles_id(name) {
        return refuse(ID_LIKE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_pass_and_hostile_ones_do_not() {
        for good in ["debian", "debian-12.5", "a", "0x_1"] {
            assert!(good.parse::<ImageName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a..b", "-rf", "a b", "a\0b", "ü", &"x".repeat(129)] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_workspace_name_is_a_host_name() {
        for good in ["web", "Fix-42", "0", &"x".repeat(63)] {
            assert!(good.parse::<WorkspaceName>().is_ok(), "{good}");
        }
        for bad in ["", "a_b", "a.b", "-a", "a-", "deadbeef", "0190c1d2-1a2b", &"x".repeat(64)] {
            assert!(bad.parse::<WorkspaceName>().is_err(), "{bad:?}");
        }
    }

    /// Whether the schema of a name allows a text.
    fn is_allowed<N: JsonSchema>(text: &str) -> bool {
        let schema = schemars::schema_for!(N).to_value();
        let matches = |pattern: &serde_json::Value| {
            regex::Regex::new(pattern.as_str().unwrap()).unwrap().is_match(text)
        };
        matches(&schema["pattern"])
            && !matches(&schema["not"]["pattern"])
            && text.chars().count() as u64 <= schema["maxLength"].as_u64().unwrap()
    }

    proptest! {
        #[test]
        fn the_schema_of_a_name_allows_what_is_accepted_and_nothing_else(
            text in "[a-fA-F0-9.-]{0,40}|[0-9a-f]{8}(-[0-9a-f]{0,4}){0,4}|[A-Za-z0-9._/-]{0,20}|x{60,66}|.{0,6}",
        ) {
            prop_assert_eq!(is_allowed::<WorkspaceName>(&text), text.parse::<WorkspaceName>().is_ok(), "{}", text);
            prop_assert_eq!(is_allowed::<ImageName>(&text), text.parse::<ImageName>().is_ok(), "{}", text);
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_is_one_safe_path_component(name in ".{0,140}") {
            if let Ok(name) = name.parse::<ImageName>() {
                let path = std::path::Path::new(name.as_str());
                prop_assert_eq!(path.components().count(), 1);
                prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
            }
        }
    }
}
