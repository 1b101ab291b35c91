//! What stands between a user and KVM.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const DEVICE: &str = "/dev/kvm";

/// What to do to get KVM, on a host that runs guests without it.
pub(crate) fn advice() -> String {
    let refused = match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => {
            return "machines work, but compute slower: this host's KVM does not run our guests".to_owned();
        }
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    };
    let way = match fs::metadata(Path::new(DEVICE)) {
        Ok(device) if refused => way_in(&device, &fs::read_to_string("/etc/group").unwrap_or_default()),
        _ => "enable virtualisation in the firmware, or nested virtualisation if this is a virtual machine"
            .to_owned(),
    };
    format!("machines work, but compute slower; for KVM, {way}")
}

fn way_in(device: &Metadata, groups: &str) -> String {
    match group_name(device.gid(), groups) {
        Some(group) if device.mode() & 0o060 == 0o060 && device.gid() != 0 => {
            format!("run: sudo usermod -aG {group} $USER, then log in again")
        }
        _ => format!(
            "run: sudo chgrp kvm {DEVICE} && sudo chmod 660 {DEVICE} && sudo usermod -aG kvm $USER, then log in again"
        ),
    }
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
}
