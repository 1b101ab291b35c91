//! Kernels, modules and packages are parsed or rejected, and ranges stay within the input.

#![no_main]

use agentiso_images::kernel::{ar_members, modinfo_depends, pvh_entry, unpack_vmlinux, version_of_bzimage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = version_of_bzimage(bytes);
    let _ = unpack_vmlinux(bytes);
    let _ = pvh_entry(bytes);
    let _ = modinfo_depends(bytes);
    for (_, range) in ar_members(bytes).unwrap_or_default() {
        assert!(range.start <= range.end && range.end <= bytes.len());
    }
});
