//! Mounts that other programs see, which need root or, for an ordinary user, a `/dev/fuse` that root has opened to all.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod fuse;
mod kernel;
#[path = "../mounts/ops.rs"]
mod ops;
mod plain;
mod server;
#[path = "../mounts/support.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;
