//! The system calls that a sandbox refuses.

use libc::c_long;
use rustix::io::Errno;

use super::filter::{Filter, Rule};

/// The newest system call that was considered (`file_setattr`). Newer ones do not exist in a sandbox.
const NEWEST: u32 = 469;
const OPEN_TREE_ATTR: c_long = 467;

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

/// `TIOCSTI`, `TIOCLINUX` (both type into a terminal), `TIOCSETD` (loads line disciplines).
const TERMINAL: &[u32] = &[0x5412, 0x541c, 0x5423];
/// Linux with and without the address space of 32 bits, UNAME26, without address randomisation (sanitizers ask for it),
/// and the question which one it is.
const PERSONALITIES: &[u32] = &[0, 8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX];
const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
/// The family, the argument with the protocol, and `NETLINK_ROUTE`: programs list interfaces with it.
const ROUTE: (u32, u8, u32) = (16, 2, 0);

/// Those that change what a process is isolated by, that reach into other processes or into the kernel, or that have often
/// been the way out of a sandbox.
const REFUSED: &[c_long] = &[
    // Mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_fanotify_init,
    // Namespaces. `clone` has a rule of its own.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys of the user, which no namespace separates.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_uselib,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// Those for whose absence programs are prepared: they use something else.
const ABSENT: &[c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Its flags are in memory, where a filter cannot see them. C libraries then use `clone`.
    libc::SYS_clone3,
];

/// The sockets that a sandbox may open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sockets {
    /// Unix, IPv4 and IPv6, and netlink to list interfaces and routes.
    Internet,
    /// Unix sockets: for a sandbox without network and without a network namespace.
    Unix,
}

/// The filter of a sandbox.
pub(crate) fn sandbox(sockets: Sockets) -> Filter {
    let (values, pairs, error): (&[u32], &[(u32, u8, u32)], _) = match sockets {
        Sockets::Internet => (&[UNIX, INET, INET6], &[ROUTE], Errno::AFNOSUPPORT),
        Sockets::Unix => (&[UNIX], &[], Errno::ACCESS),
    };
    let mut rules = vec![
        (libc::SYS_clone, Rule::FailIfAnyBit { argument: 0, bits: NAMESPACES, error: Errno::PERM }),
        (libc::SYS_ioctl, Rule::FailIfOneOf { argument: 1, values: TERMINAL, error: Errno::PERM }),
        (libc::SYS_socket, Rule::AllowOnly { argument: 0, values, pairs, error }),
        (
            libc::SYS_personality,
            Rule::AllowOnly { argument: 0, values: PERSONALITIES, pairs: &[], error: Errno::PERM },
        ),
    ];
    rules.extend(REFUSED.iter().map(|&number| (number, Rule::Fail(Errno::PERM))));
    rules.extend(ABSENT.iter().map(|&number| (number, Rule::Fail(Errno::NOSYS))));
    Filter::new(NEWEST, &rules)
}

/// The filter that asks about renames. It comes on top of that of the sandbox, whose refusals it does not weaken.
pub(crate) fn renames() -> Filter {
    let calls = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
    Filter::new(NEWEST, &calls.map(|number| (number, Rule::Notify)))
}

#[cfg(test)]
mod tests {
    use super::super::filter::tests::{ASKED, answer};
    use super::*;

    const HERE: u32 = 0xc000_003e;

    fn ask(sockets: Sockets, number: c_long, arguments: [u64; 3]) -> Result<(), Errno> {
        let [first, second, third] = arguments;
        answer(&sandbox(sockets), HERE, number.try_into().unwrap(), [first, second, third, 0, 0, 0])
    }

    #[test]
    fn the_ways_out_are_refused() {
        for &number in REFUSED {
            assert_eq!(ask(Sockets::Internet, number, [0; 3]), Err(Errno::PERM), "{number}");
        }
        for &number in ABSENT {
            assert_eq!(ask(Sockets::Internet, number, [0; 3]), Err(Errno::NOSYS), "{number}");
        }
        let user = u64::from(libc::CLONE_NEWUSER.cast_unsigned()) | 17;
        assert_eq!(ask(Sockets::Internet, libc::SYS_clone, [user, 0, 0]), Err(Errno::PERM));
        assert_eq!(ask(Sockets::Internet, libc::SYS_ioctl, [0, 0x5412, 0]), Err(Errno::PERM));
        assert_eq!(ask(Sockets::Internet, libc::SYS_personality, [0x40_0000, 0, 0]), Err(Errno::PERM));
        for family in [16u64, 17, 38, 40, 0, 3] {
            // Netlink with a protocol that is not the routes.
            let asked = ask(Sockets::Internet, libc::SYS_socket, [family, 3, 9]);
            assert_eq!(asked, Err(Errno::AFNOSUPPORT), "{family}");
        }
    }

    #[test]
    fn what_programs_need_is_allowed() {
        let needed = [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_execve,
            libc::SYS_mmap,
            libc::SYS_futex,
            libc::SYS_rename,
            libc::SYS_statx,
            libc::SYS_memfd_create,
            libc::SYS_copy_file_range,
            libc::SYS_prctl,
            libc::SYS_seccomp,
            libc::SYS_rseq,
            libc::SYS_pidfd_open,
            libc::SYS_inotify_init1,
            libc::SYS_setsid,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_mknod,
            libc::SYS_setxattr,
            libc::SYS_sched_setaffinity,
        ];
        for number in needed {
            assert_eq!(ask(Sockets::Internet, number, [0; 3]), Ok(()), "{number}");
        }
        // A thread, and a fork.
        let thread = u64::from((libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).cast_unsigned());
        assert_eq!(ask(Sockets::Internet, libc::SYS_clone, [thread, 0, 0]), Ok(()));
        assert_eq!(ask(Sockets::Internet, libc::SYS_clone, [17, 0, 0]), Ok(()));
        assert_eq!(ask(Sockets::Internet, libc::SYS_ioctl, [0, 0x5401, 0]), Ok(()), "TCGETS");
        for (family, protocol) in [(1, 0), (2, 0), (10, 6), (16, 0)] {
            assert_eq!(ask(Sockets::Internet, libc::SYS_socket, [family, 3, protocol]), Ok(()), "{family}");
        }
    }

    #[test]
    fn renames_alone_are_asked_about() {
        let ask = |number: c_long| answer(&renames(), HERE, number.try_into().unwrap(), [0; 6]);
        for number in [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2] {
            assert_eq!(ask(number), Err(ASKED), "{number}");
        }
        for number in [libc::SYS_link, libc::SYS_execve, libc::SYS_sendmsg, libc::SYS_exit_group] {
            assert_eq!(ask(number), Ok(()), "{number}");
        }
    }

    #[test]
    fn without_a_network_namespace_only_unix_sockets_are_left() {
        assert_eq!(ask(Sockets::Unix, libc::SYS_socket, [1, 1, 0]), Ok(()));
        assert_eq!(ask(Sockets::Unix, libc::SYS_socket, [2, 1, 0]), Err(Errno::ACCESS));
        assert_eq!(ask(Sockets::Unix, libc::SYS_socket, [16, 3, 0]), Err(Errno::ACCESS));
    }
}
