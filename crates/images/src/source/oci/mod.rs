//! OCI layouts and docker archives.

mod blobs;
mod layers;
mod manifest;
mod names;
mod source;
mod verified;

pub use names::{LayerName, layer_name};
pub use source::OciSource;

pub(super) use manifest::choose;
pub(super) use verified::{digest_of, digest_text, sha256_hex};
