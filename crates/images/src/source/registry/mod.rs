//! Pulling images from registries.
//!
//! A registry is hostile until its bytes match their digests: every response has a size limit and a deadline, including
//! tokens, error messages and manifests.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod answer;
mod auth;
mod client;
mod login;
mod pull;

pub use login::docker_config;
pub use pull::pull;
