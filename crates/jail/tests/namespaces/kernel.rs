//! System calls that a sandbox refuses, and those that it must not refuse.

use crate::place::Place;

const EPERM: i32 = libc::EPERM;
const ENOSYS: i32 = libc::ENOSYS;
const EAFNOSUPPORT: i32 = libc::EAFNOSUPPORT;

/// The error of a system call in a sandbox; 0 if it succeeds.
fn error_of(place: &Place, number: i64, arguments: &str) -> i32 {
    let script = format!(
        "perl -e 'my @call = ({number}{arguments}); my $r = syscall(shift @call, @call); print $r < 0 ? $!+0 : 0'"
    );
    place.run(&script).text().parse().unwrap()
}

as_everyone! {
    fn dangerous_calls_are_refused() {
        let place = Place::new();
        let refused = [
            ("mount", libc::SYS_mount, ", \"none\", \"/tmp\", \"tmpfs\", 0, 0", EPERM),
            ("umount2", libc::SYS_umount2, ", \"/tmp\", 2", EPERM),
            ("pivot_root", libc::SYS_pivot_root, ", \"/tmp\", \"/tmp\"", EPERM),
            ("unshare user", libc::SYS_unshare, ", 0x10000000", EPERM),
            ("clone user", libc::SYS_clone, ", 0x10000011, 0, 0, 0, 0", EPERM),
            ("clone3", libc::SYS_clone3, ", 0, 0", ENOSYS),
            ("setns", libc::SYS_setns, ", 0, 0", EPERM),
            ("ptrace traceme", libc::SYS_ptrace, ", 0, 0, 0, 0", EPERM),
            ("process_vm_readv", libc::SYS_process_vm_readv, ", 1, 0, 0, 0, 0, 0", EPERM),
            ("keyctl", libc::SYS_keyctl, ", 0, -3, 1", EPERM),
            ("add_key", libc::SYS_add_key, ", \"user\", \"x\", \"y\", 1, -3", EPERM),
            ("request_key", libc::SYS_request_key, ", \"user\", \"x\", 0, -3", EPERM),
            ("bpf", libc::SYS_bpf, ", 0, 0, 0", EPERM),
            ("perf_event_open", libc::SYS_perf_event_open, ", 0, 0, -1, -1, 0", EPERM),
            ("userfaultfd", libc::SYS_userfaultfd, ", 0", EPERM),
            ("io_uring_setup", libc::SYS_io_uring_setup, ", 1, 0", ENOSYS),
            ("open_by_handle_at", libc::SYS_open_by_handle_at, ", 0, 0, 0", EPERM),
            ("init_module", libc::SYS_init_module, ", 0, 0, \"\"", EPERM),
            ("kexec_load", libc::SYS_kexec_load, ", 0, 0, 0, 0", EPERM),
            ("reboot", libc::SYS_reboot, ", 0, 0, 0, 0", EPERM),
            ("swapon", libc::SYS_swapon, ", \"/tmp/x\", 0", EPERM),
            ("quotactl", libc::SYS_quotactl, ", 0, 0, 0, 0", EPERM),
            ("personality", libc::SYS_personality, ", 0x0400000", EPERM),
            ("packet socket", libc::SYS_socket, ", 17, 3, 0", EAFNOSUPPORT),
            ("vsock socket", libc::SYS_socket, ", 40, 1, 0", EAFNOSUPPORT),
            ("audit socket", libc::SYS_socket, ", 16, 3, 9", EAFNOSUPPORT),
            ("a newer call", 470, "", ENOSYS),
        ];
        for (name, number, arguments, error) in refused {
            assert_eq!(error_of(&place, number, arguments), error, "{name}");
        }
    }
}

as_everyone! {
    fn ordinary_calls_are_not() {
        let place = Place::new();
        let allowed = [
            ("memfd_create", libc::SYS_memfd_create, ", \"x\", 0"),
            ("inotify_init1", libc::SYS_inotify_init1, ", 0"),
            ("route socket", libc::SYS_socket, ", 16, 3, 0"),
            ("which personality", libc::SYS_personality, ", 0xffffffff"),
            ("epoll_create1", libc::SYS_epoll_create1, ", 0"),
            ("landlock version", libc::SYS_landlock_create_ruleset, ", 0, 0, 1"),
        ];
        for (name, number, arguments) in allowed {
            assert_eq!(error_of(&place, number, arguments), 0, "{name}");
        }
    }
}

as_everyone! {
    fn landlock_is_a_second_layer() {
        // A mount that is writable as far as the mount is concerned, in a place that Landlock only lets read.
        let place = Place::new();
        let output = place.run("grep -E '^Seccomp:' /proc/self/status | tr -d '\\t'; cd /; (echo x > /proc/self/comm) && echo comm; (mknod /tmp/null c 1 3) 2>/dev/null || echo nodes");
        assert_eq!(output.text().split_whitespace().collect::<Vec<_>>(), ["Seccomp:2", "comm", "nodes"]);
    }
}
