//! Names and headers of archives are parsed or rejected, and an accepted path has no `..`.

#![no_main]

use agentiso_images::ext4::parse_superblock;
use agentiso_images::initramfs::{parse_modules_builtin, parse_modules_dep};
use agentiso_images::source::{layer_name, normalise, parse_pax};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(path) = normalise(bytes) {
        assert!(!path.starts_with(b"/") && !path.contains(&0));
        assert!(!path.split(|byte| *byte == b'/').any(|part| part == b".." || part == b"."));
    }
    let _ = layer_name(bytes);
    let _ = parse_pax(bytes);
    let _ = parse_superblock(bytes);
    let _ = parse_modules_dep(bytes);
    let _ = parse_modules_builtin(bytes);
});
