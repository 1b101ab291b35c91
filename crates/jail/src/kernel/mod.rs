//! System calls that no library wraps, and the programs and rules that they take.

pub(crate) mod capabilities;
pub(crate) mod landlock;
pub(crate) mod loopback;
pub(crate) mod mounts;
pub(crate) mod process;
pub(crate) mod seccomp;
