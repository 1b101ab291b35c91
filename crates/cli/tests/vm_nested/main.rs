//! What only a host has that is ours to bend: control groups, vsock, and both taken away. Built with the feature
//! `nested-tests`, run as root in the test host of `scripts/test-nested`.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod devices;
mod host;
mod limits;
mod processor;
mod user;
mod users;
mod vsock;
