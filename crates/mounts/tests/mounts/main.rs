//! Tests on real overlays in user namespaces. Each runs as the present user and, if that is root, as an ordinary user too.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod consistency;
mod full;
mod kills;
mod layouts;
mod operations;
mod ops;
mod renames;
mod support;
mod workdirs;
