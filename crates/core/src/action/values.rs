//! Fixed sets of values on the wire: an enum here, an `enum` of strings in every schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are written in snake case.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value that is written like this.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }

            /// As it is written on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        // A derived schema would be a list of constants with descriptions, which makes every list of tools longer.
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "enum": [$($text),+]})
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

values! {
    /// Whether a workspace has a machine.
    State {
        /// Its machine runs.
        Running = "running",
        /// It has no machine.
        Stopped = "stopped",
        /// Its machine's memory is on disk.
        Suspended = "suspended",
    }
}

values! {
    /// Where a machine came from, and so how fast it started.
    Tier {
        /// It booted.
        Cold = "cold",
        /// It is a clone of a booted guest that mounted its disk afterwards.
        Template = "template",
        /// It is a clone of a guest with its image already mounted.
        WarmTemplate = "warm_template",
        /// It was ready and waiting.
        Pool = "pool",
        /// It was split off a running machine.
        Fork = "fork",
        /// Its memory came from a snapshot.
        Snapshot = "snapshot",
    }
}

values! {
    /// How a machine's instructions run.
    Accel {
        /// By the processor, through the kernel.
        Kvm = "kvm",
        /// By translation.
        Tcg = "tcg",
    }
}

values! {
    /// Which log of a machine.
    LogType {
        /// Its serial console.
        Console = "console",
        /// QEMU's own messages.
        Stderr = "stderr",
        /// Both.
        All = "all",
    }
}

values! {
    /// What was done to a background command.
    JobStatus {
        /// It was started.
        Started = "started",
        /// It was killed.
        Killed = "killed",
        /// It got another signal.
        Signalled = "signalled",
        /// It had ended already.
        Ended = "ended",
    }
}

values! {
    /// What came of a commit.
    CommitStatus {
        /// There is a new one.
        Committed = "committed",
        /// There was nothing to commit.
        NothingToCommit = "nothing_to_commit",
    }
}

values! {
    /// What an image was made from.
    ImageSource {
        /// Debian packages.
        Debian = "debian",
        /// A tarball.
        Tar = "tar",
        /// A directory.
        Directory = "directory",
        /// An OCI or docker archive.
        OciArchive = "oci_archive",
        /// A registry.
        Registry = "registry",
        /// A workspace.
        Workspace = "workspace",
    }
}

values! {
    /// How the content of a file is written in JSON.
    Encoding {
        /// UTF-8 text.
        Text = "text",
        /// Any bytes.
        Base64 = "base64",
    }
}

values! {
    /// What a path is.
    PathKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Symlink = "symlink",
        /// A device, a pipe or a socket.
        Other = "other",
    }
}

values! {
    /// Where files are copied.
    Direction {
        /// From the host to the workspace.
        Upload = "upload",
        /// From the workspace to the host.
        Download = "download",
    }
}

values! {
    /// What a look at a background command waits for.
    WaitFor {
        /// Nothing.
        Nothing = "none",
        /// Output after the offsets.
        Output = "output",
        /// Its end.
        Exit = "exit",
    }
}

values! {
    /// Why a snapshot was taken.
    SnapshotKind {
        /// A user asked for it.
        User = "user",
        /// The workspace was suspended: it holds the memory and disk that resuming continues with.
        Suspend = "suspend",
        /// It was taken before a risky command.
        Checkpoint = "checkpoint",
    }
}

values! {
    /// What happened to a file between two points.
    ChangeKind {
        /// It is new.
        Added = "added",
        /// It is gone.
        Removed = "removed",
        /// Its content or attributes differ.
        Modified = "modified",
        /// It has another path.
        Renamed = "renamed",
        /// It could not be read.
        Unreadable = "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_displayed() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.to_string());
            assert_eq!(serde_json::from_value::<State>(state.as_str().into()).unwrap(), *state);
        }
        assert_eq!(serde_json::to_value(WaitFor::Nothing).unwrap(), "none");
        assert!(serde_json::from_str::<State>("\"paused\"").is_err());
    }

    #[test]
    fn a_schema_lists_the_values() {
        let schema = schemars::schema_for!(Direction).to_value();
        assert_eq!(schema["enum"], serde_json::json!(["upload", "download"]));
    }
}
