//! Pulling images from registries.
//!
//! A registry is hostile until its bytes match their digests: every answer has a size limit and a deadline, tokens,
//! error texts and manifests included.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod answer;
mod auth;
mod client;
mod login;
mod pull;

pub use login::docker_config;
pub use pull::pull;
