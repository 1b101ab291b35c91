//! The user and groups that QEMU runs as.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`, once per machine start")]

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The user a process runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Group that may use KVM, if it is one group's privilege.
    pub kvm_gid: Option<u32>,
}

/// The group that may use KVM, if the device belongs to one. Never root's own: what that may do is not for QEMU.
fn kvm_group() -> Option<u32> {
    let meta = fs::metadata("/dev/kvm").ok()?;
    usable_group(meta.mode(), meta.gid())
}

fn usable_group(mode: u32, gid: u32) -> Option<u32> {
    (mode & 0o060 == 0o060 && gid != 0).then_some(gid)
}

/// Looks a user up in `/etc/passwd`.
pub fn lookup_user(name: &str) -> Option<Credentials> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            [user, _, uid, gid, ..] if user == name => {
                Some(Credentials { uid: uid.parse().ok()?, gid: gid.parse().ok()?, kvm_gid: kvm_group() })
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_joins_the_group_of_kvm_unless_that_is_roots() {
        assert_eq!(usable_group(0o20660, 104), Some(104));
        assert_eq!(usable_group(0o20660, 0), None);
        assert_eq!(usable_group(0o20600, 104), None);
    }
}
