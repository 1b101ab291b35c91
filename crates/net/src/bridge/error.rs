//! Why the bridge cannot be set up or changed.

use std::io;

use agentiso_core::{Code, Explain};

/// A failure of the back end `bridge`. What was there before is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("could not {step}")]
pub struct BridgeError {
    pub(super) step: &'static str,
    #[source]
    pub(super) source: io::Error,
}

impl BridgeError {
    pub(super) fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { step, source }
    }
}

impl Explain for BridgeError {
    fn code(&self) -> Code {
        Code::NetworkUnavailable
    }

    fn remedy(&self) -> Option<String> {
        Some(match self.source.kind() {
            io::ErrorKind::PermissionDenied => {
                "run the daemon as root, or set network.backend = \"user\"".to_owned()
            }
            io::ErrorKind::NotFound => {
                "install nftables and passt, check that /dev/net/tun exists, or set network.backend = \"user\""
                    .to_owned()
            }
            _ => "see the daemon's log; network.backend = \"user\" needs nothing of the kernel".to_owned(),
        })
    }
}
