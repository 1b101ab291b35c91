//! Who may talk to an agent over vsock.
//!
//! Any user of the host can connect to any guest's vsock port, so the host proves itself with a key, sent before its
//! Hello. QEMU shows the key to the guest as a file of its firmware's configuration, which nobody else on the host can
//! read. It belongs to the QEMU process and not to the guest's memory: a guest that was restored or forked finds the
//! key of its new QEMU there.

/// Length of the key.
pub const LINK_KEY_LEN: usize = 32;
/// What the file is called.
pub const LINK_KEY_FILE: &str = "opt/agentiso/link.key";
/// Where the agent listens.
pub const VSOCK_PORT: u32 = 5000;
