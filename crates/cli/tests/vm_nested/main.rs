//! Tests that modify the host: cgroups, vsock, and removal of both. Built with the feature `nested-tests`, run as root
//! in the test host of `scripts/test-nested`.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test helpers may panic")]

mod devices;
mod host;
mod limits;
mod processor;
mod user;
mod users;
mod vsock;
