//! Fixed sets of values on the wire: an enum here, an `enum` of strings in every schema.

/// Declares an enum whose variants are written in snake case.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, serde::Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize,
        )]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value with this name.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        // A derived schema would be a list of constants with descriptions, which makes every list of tools longer.
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": [$($text),+]})
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use values;

values! {
    /// The state of a workspace.
    State {
        /// Its machine runs.
        Running = "running",
        /// It has no machine; its disk is kept.
        Stopped = "stopped",
        /// It has no machine; its disk and memory are kept.
        Suspended = "suspended",
    }
}

values! {
    /// How a machine was started.
    Tier {
        /// It booted a kernel.
        Cold = "cold",
        /// It is a clone of a booted guest that mounted its disk afterwards.
        Template = "template",
        /// It is a clone of a guest with its image already mounted.
        WarmTemplate = "warm_template",
        /// It was taken from the warm pool.
        Pool = "pool",
        /// It was forked from a running machine.
        Fork = "fork",
        /// Its memory came from a snapshot.
        Snapshot = "snapshot",
    }
}

values! {
    /// How the instructions of a guest are executed.
    Accel {
        /// By the processor, with hardware virtualisation.
        Kvm = "kvm",
        /// By QEMU, in software.
        Tcg = "tcg",
    }
}

values! {
    /// A log of a machine.
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
    /// The result of an operation on a background command.
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
    /// The result of a commit.
    CommitStatus {
        /// A commit was created.
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
    /// How the content of a file is encoded in JSON.
    Encoding {
        /// UTF-8 text.
        Text = "text",
        /// Any bytes.
        Base64 = "base64",
    }
}

values! {
    /// The type of a file.
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
    /// The direction of a file transfer.
    Direction {
        /// From the host to the workspace.
        Upload = "upload",
        /// From the workspace to the host.
        Download = "download",
    }
}

values! {
    /// What a poll of a background command waits for.
    WaitFor {
        /// Do not wait.
        Nothing = "none",
        /// Wait for output after the offsets.
        Output = "output",
        /// Wait until it exits.
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
    /// How a file differs between two points.
    ChangeKind {
        /// It exists only at the later point.
        Added = "added",
        /// It exists only at the earlier point.
        Removed = "removed",
        /// Its content or attributes differ.
        Modified = "modified",
        /// It was moved to another path.
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
