//! The files of the QEMU program itself.

use std::path::{Path, PathBuf};

use crate::qemu::Qemu;

/// The directories of libraries.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];
/// Files of the dynamic linker, and other places of firmware.
const ALSO: [&str; 5] = [
    "/etc/ld.so.cache",
    "/etc/ld-musl-x86_64.path",
    "/usr/share/seabios",
    "/usr/share/qemu-firmware",
    "/usr/share/ipxe",
];
/// Package stores with unpredictable names, which are made visible as a whole.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

/// All files that a QEMU program needs. Missing ones are left out.
pub(super) fn files(qemu: &Qemu, exists: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = LIBRARIES.iter().chain(&ALSO).map(PathBuf::from).collect();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (program, firmware) = (real(&qemu.path), real(&qemu.firmware));
    // A QEMU with its own prefix has its libraries and modules there.
    let prefixes = [&qemu.path, &program].map(|path| path.parent().and_then(Path::parent));
    for prefix in prefixes.into_iter().flatten().filter(|prefix| *prefix != Path::new("/")) {
        files.extend(["lib", "lib64", "share/qemu"].map(|below| prefix.join(below)));
    }
    for path in [&qemu.firmware, &firmware] {
        files.extend(path.parent().map(Path::to_owned));
    }
    for store in STORES.map(Path::new) {
        if program.starts_with(store) || firmware.starts_with(store) {
            files.push(store.to_owned());
        }
    }
    files.extend([qemu.path.clone(), program]);
    files.retain(|path| path.is_absolute() && exists(path));
    files.sort();
    files.dedup();
    // Leave out files in directories that are visible already.
    let dirs = files.clone();
    files.retain(|path| !dirs.iter().any(|dir| path != dir && path.starts_with(dir)));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, firmware: &str) -> Vec<String> {
        let qemu = Qemu {
            path: path.into(),
            version: "x".into(),
            release: (10, 0),
            firmware: firmware.into(),
            identity: "i".into(),
        };
        let there = |path: &Path| !path.starts_with("/etc/ld-musl-x86_64.path") && path != "/usr/share/ipxe";
        files(&qemu, &there).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_distributions_qemu_needs_libraries_and_firmware_and_no_configuration() {
        let files = of("/no/such/usr/bin/qemu-system-x86_64", "/usr/share/qemu/qboot.rom");
        for wanted in ["/etc/ld.so.cache", "/lib", "/usr/lib", "/usr/share/qemu", "/usr/share/seabios"] {
            assert!(files.iter().any(|path| path == wanted), "{wanted}: {files:?}");
        }
        for not_wanted in ["/", "/etc", "/usr", "/home", "/var", "/usr/share", "/etc/ld-musl-x86_64.path"] {
            assert!(files.iter().all(|path| path != not_wanted), "{not_wanted}: {files:?}");
        }
    }

    #[test]
    fn one_that_was_built_elsewhere_has_its_parts_beside_it() {
        let files = of("/no/such/qemu/bin/qemu-system-x86_64", "/no/such/qemu/share/qemu/qboot.rom");
        for wanted in ["bin/qemu-system-x86_64", "lib", "lib64", "share/qemu"] {
            assert!(files.contains(&format!("/no/such/qemu/{wanted}")), "{wanted}: {files:?}");
        }
        assert!(!files.contains(&"/no/such/qemu".to_owned()));
        let store =
            of("/nix/store/abc-qemu/bin/qemu-system-x86_64", "/nix/store/abc-qemu/share/qemu/qboot.rom");
        assert!(store.contains(&"/nix/store".to_owned()), "{store:?}");
        assert_eq!(store.iter().filter(|path| path.starts_with("/nix")).count(), 1);
    }
}
