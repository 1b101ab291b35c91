//! The seccomp filter that reports renames.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF,
    SECCOMP_SET_MODE_FILTER, sock_filter, sock_fprog,
};

#[cfg(target_arch = "x86_64")]
mod native {
    pub(super) const AUDIT_ARCH: u32 = 0xc000_003e;
    pub(super) const RENAMES: [i64; 3] = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
}

#[cfg(target_arch = "aarch64")]
mod native {
    pub(super) const AUDIT_ARCH: u32 = 0xc000_00b7;
    pub(super) const RENAMES: [i64; 2] = [libc::SYS_renameat, libc::SYS_renameat2];
}

/// Where the number of the system call and the architecture are in what a filter reads.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// The filter: reports renames and allows everything else. Programs of other architectures are not reported; their renames
/// work as far as the kernel does them.
pub fn rename_filter() -> Vec<sock_filter> {
    let renames = native::RENAMES;
    let load = |offset| statement(BPF_LD | BPF_W | BPF_ABS, offset);
    let give = |action| statement(BPF_RET | BPF_K, action);
    let mut filter = vec![load(ARCH), jump_unless(native::AUDIT_ARCH, renames.len() as u8 + 1), load(NUMBER)];
    for (at, number) in renames.iter().enumerate() {
        // Over the remaining comparisons and the allowing return.
        filter.push(jump_if(*number as u32, (renames.len() - at) as u8));
    }
    filter.extend([give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_USER_NOTIF)]);
    filter
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump_if(k: u32, jt: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt, jf: 0, k }
}

fn jump_unless(k: u32, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf, k }
}

/// Installs the filter in the calling thread, for good, and returns the descriptor that the supervisor needs. The caller
/// has no-new-privileges set or is privileged in its user namespace. Allocates nothing, so it may be called between fork
/// and exec with a filter that was made before.
pub fn install_rename_filter(filter: &[sock_filter]) -> io::Result<OwnedFd> {
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the program points to a filter that lives during the call, and the kernel does not write to it.
        unsafe { libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let mut fd = install(SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // Kernels before 5.19.
        fd = install(SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_leads_to_the_intended_return() {
        let filter = rename_filter();
        let last = filter.len() - 1;
        for (at, step) in filter.iter().enumerate().filter(|(_, step)| step.jt > 0) {
            assert_eq!(at + 1 + usize::from(step.jt), last, "reported");
        }
        let arch = filter.get(1).map(|step| usize::from(step.jf));
        assert_eq!(arch, Some(last - 1 - 2), "a foreign architecture is allowed");
    }
}
