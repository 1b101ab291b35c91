//! Devices that disappear between two starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::host::Host;
use crate::user::User;

const KVM: &str = "/dev/kvm";
const VSOCK: &str = "/dev/vhost-vsock";

/// Removes a device until dropped.
struct Away(&'static str);

impl Away {
    fn now(device: &'static str) -> Self {
        fs::rename(device, aside(device)).expect("a device");
        Self(device)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = fs::rename(aside(self.0), self.0);
    }
}

fn aside(device: &str) -> String {
    format!("{device}.aside")
}

/// Restricts a device to root until dropped.
struct Closed(&'static str, Permissions);

impl Closed {
    fn now(device: &'static str) -> Self {
        let before = fs::metadata(device).expect("a device").permissions();
        fs::set_permissions(device, Permissions::from_mode(0o600)).expect("its permissions");
        Self(device, before)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let _ = fs::set_permissions(self.0, self.1.clone());
    }
}

/// A stopped workspace with a snapshot with memory that was created with the devices.
fn stopped_with_a_moment(host: &Host) {
    host.create("one");
    assert!(uses_kvm(host) && uses_vsock(host), "{}", host.command_line("one"));
    host.run(&["snapshot", "create", "one", "moment", "--memory"]);
    host.run(&["stop", "one"]);
}

fn uses_kvm(host: &Host) -> bool {
    host.command_line("one").contains("-accel kvm")
}

fn uses_vsock(host: &Host) -> bool {
    host.command_line("one").contains("guest-cid=")
}

/// Asserts that the workspace starts without them and reports it, and that its memory cannot be restored until they are
/// back.
fn done_without(host: &Host, needed: &str) {
    host.run(&["start", "one"]);
    host.run(&["exec", "one", "--", "true"]);
    assert!(host.log().contains("worked before"), "{}", host.log());
    let refusal = host.refusal(&["snapshot", "restore", "one", "moment"]);
    assert_eq!(refusal.code, "snapshot_incompatible", "{refusal:?}");
    assert!(refusal.message.contains(needed), "{refusal:?}");
    // Running machines are not affected.
    host.run(&["exec", "one", "--", "true"]);
}

#[test]
fn without_vsock_machines_start_and_memory_that_needs_it_is_kept() {
    let host = Host::new("", "");
    stopped_with_a_moment(&host);
    {
        let _away = Away::now(VSOCK);
        done_without(&host, VSOCK);
        assert!(uses_kvm(&host) && !uses_vsock(&host), "{}", host.command_line("one"));
        let finding = host.finding("guest link");
        assert!(finding["fix"].as_str().unwrap().contains("modprobe vhost_vsock"), "{finding}");
    }
    host.run(&["snapshot", "restore", "one", "moment"]);
    assert!(uses_vsock(&host));
}

#[test]
fn without_kvm_machines_start_and_memory_that_needs_it_is_kept() {
    let host = Host::new("", "");
    stopped_with_a_moment(&host);
    {
        let _away = Away::now(KVM);
        done_without(&host, KVM);
        assert!(!uses_kvm(&host) && uses_vsock(&host), "{}", host.command_line("one"));
        let finding = host.finding("acceleration");
        assert!(finding["detail"].as_str().unwrap().starts_with("tcg"), "{finding}");
    }
    host.run(&["snapshot", "restore", "one", "moment"]);
    assert!(uses_kvm(&host));
}

#[test]
fn devices_without_access_are_not_used_until_access_is_granted() {
    let ann = User::new("ann", &["kvm"]);
    let host = Host::of_user(&ann, "");
    stopped_with_a_moment(&host);
    {
        let _closed = [Closed::now(KVM), Closed::now(VSOCK)];
        done_without(&host, KVM);
        assert!(!uses_kvm(&host) && !uses_vsock(&host), "{}", host.command_line("one"));
    }
    host.run(&["snapshot", "restore", "one", "moment"]);
    assert!(uses_kvm(&host) && uses_vsock(&host));
}
