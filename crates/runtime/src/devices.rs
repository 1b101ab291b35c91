//! Advice for users who have no access to `/dev/kvm` or `/dev/vhost-vsock`.
#![expect(clippy::disallowed_methods, reason = "called by `check`, which runs `in_place`")]

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;

/// The group to give a device to that only root can use: distributions use it for virtualisation.
const USUAL_GROUP: &str = "kvm";

/// Who can open a device.
enum Access {
    Open,
    /// Root only.
    OnlyRoot,
    /// It exists, with this mode and group, and we cannot open it.
    Refused {
        mode: u32,
        group: Option<String>,
    },
    Missing,
}

/// What to do to get KVM, on a host that runs guests without it.
pub(crate) fn kvm_advice() -> String {
    let way = match access("kvm") {
        Access::Open => {
            return "machines work, but compute slower: this host's KVM does not run our guests".to_owned();
        }
        // QEMU does not run as root.
        Access::OnlyRoot => rule("kvm"),
        Access::Refused { mode, group } => way_in("kvm", mode, group.as_deref()),
        Access::Missing => {
            "enable virtualisation in the firmware, or nested virtualisation if this is a virtual machine"
                .to_owned()
        }
    };
    format!("machines work, but compute slower; for KVM, {way}")
}

/// What to do to get vsock, on a host that uses a serial link. `None` if access is not the reason.
pub(crate) fn vsock_advice() -> Option<String> {
    match access("vhost-vsock") {
        Access::Open | Access::OnlyRoot => None,
        Access::Refused { mode, group } => {
            Some(format!("machines work; for vsock, {}", way_in("vhost-vsock", mode, group.as_deref())))
        }
        Access::Missing => Some(
            "machines work; for vsock, run: sudo modprobe vhost_vsock, and for every boot: \
             echo vhost_vsock | sudo tee /etc/modules-load.d/agentiso.conf"
                .to_owned(),
        ),
    }
}

fn access(device: &str) -> Access {
    let path = format!("/dev/{device}");
    let opened = OpenOptions::new().read(true).write(true).open(&path).map(drop);
    match (opened, fs::metadata(&path)) {
        (Ok(()), Ok(about)) if is_only_roots(about.mode(), about.uid(), about.gid()) => Access::OnlyRoot,
        (Ok(()), _) => Access::Open,
        (Err(error), Ok(about)) if is_refusal(&error) => {
            let groups = fs::read_to_string("/etc/group").unwrap_or_default();
            let group = group_name(about.gid(), &groups).filter(|_| about.gid() != 0);
            Access::Refused { mode: about.mode(), group: group.map(str::to_owned) }
        }
        _ => Access::Missing,
    }
}

/// QEMU is never in root's group, so that group's permissions do not count.
fn is_only_roots(mode: u32, uid: u32, gid: u32) -> bool {
    uid == 0 && (mode & 0o060 != 0o060 || gid == 0) && mode & 0o006 != 0o006
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// Join the group that may use the device; if there is none, give the device to one, with a udev rule so that it survives a
/// reboot.
fn way_in(device: &str, mode: u32, group: Option<&str>) -> String {
    match group {
        Some(group) if mode & 0o060 == 0o060 => {
            format!("run: sudo usermod -aG {group} $USER, then log in again")
        }
        _ => format!("{} && sudo usermod -aG {USUAL_GROUP} $USER, then log in again", rule(device)),
    }
}

fn rule(device: &str) -> String {
    format!(
        "run: echo 'KERNEL==\"{device}\", GROUP=\"{USUAL_GROUP}\", MODE=\"0660\"' | \
         sudo tee /etc/udev/rules.d/60-agentiso-{device}.rules && sudo udevadm control --reload && \
         sudo udevadm trigger --name-match={device}"
    )
}

fn group_name(gid: u32, groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_number() {
        let groups = "root:x:0:\nkvm:x:104:ann\nusers:x:100:\n";
        assert_eq!(group_name(104, groups), Some("kvm"));
        assert_eq!(group_name(1040, groups), None);
    }

    #[test]
    fn a_device_is_only_roots_if_neither_a_group_nor_everybody_may_use_it() {
        for mode in [0o600, 0o640, 0o644] {
            assert!(is_only_roots(mode, 0, 104), "{mode:o}");
        }
        assert!(is_only_roots(0o660, 0, 0), "QEMU is not in root's group");
        for (mode, uid) in [(0o660, 0), (0o666, 0), (0o600, 1000)] {
            assert!(!is_only_roots(mode, uid, 104), "{mode:o} {uid}");
        }
    }

    #[test]
    fn a_group_that_may_is_joined_and_a_device_without_one_gets_a_rule() {
        assert!(way_in("vhost-vsock", 0o660, Some("virt")).contains("usermod -aG virt $USER"));
        for (mode, group) in [(0o600, Some("virt")), (0o660, None), (0o600, None)] {
            let way = way_in("vhost-vsock", mode, group);
            assert!(way.contains("KERNEL==\"vhost-vsock\", GROUP=\"kvm\", MODE=\"0660\""), "{way}");
            assert!(way.contains("usermod -aG kvm $USER"), "{way}");
        }
    }
}
