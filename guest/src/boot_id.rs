//! A replaceable boot id. The kernel generates its own once, so all clones of a machine would share it.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags},
    mount::{MountFlags, mount_bind, mount_remount},
};

use crate::{
    error::{During, Outcome},
    paths::read_small,
};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A file in the initramfs, which is not visible after the change of root.
const COVER: &str = "/boot_id";

/// The file bind-mounted over the kernel's `boot_id`.
pub(crate) struct BootId(OwnedFd);

impl BootId {
    /// Mounts a file with the same content over the kernel's `boot_id` below `new_root`.
    pub(crate) fn cover(new_root: &str) -> Outcome<Self> {
        let covering = || "mounting over the boot id";
        let kernels = read_small(BOOT_ID.as_bytes(), 64)?;
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(COVER, flags, Mode::from_raw_mode(0o444)).during(covering)?;
        rustix::io::pwrite(&file, &kernels, 0).during(covering)?;
        let target = format!("{new_root}{BOOT_ID}");
        mount_bind(COVER, &target).during(covering)?;
        mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, c"").during(covering)?;
        Ok(Self(file))
    }

    /// Sets the boot id that processes read from now on.
    pub(crate) fn set(&self, id: [u8; 16]) -> Outcome<()> {
        rustix::io::pwrite(&self.0, text(id).as_bytes(), 0).during(|| "setting the boot id")?;
        Ok(())
    }
}

/// Formats the id as the kernel does.
fn text(id: [u8; 16]) -> String {
    let mut text = String::with_capacity(37);
    for (index, byte) in id.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_boot_id_has_the_format_of_the_kernel() {
        let id = std::array::from_fn(|index| index as u8 * 17);
        assert_eq!(text(id), "00112233-4455-6677-8899-aabbccddeeff\n");
    }
}
