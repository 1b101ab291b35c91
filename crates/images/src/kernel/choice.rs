//! Selecting a prepared kernel: the distribution's, unless a built one was selected.
//!
//! ```text
//! kernel/<version>/                 the distribution's
//! kernel/built-<version>-<key>/     built here
//! kernel/in-use                     the name of the selected built kernel, if any
//! ```

use std::fs;
use std::io;
use std::path::Path;

use super::find::sound;
use super::{Kernel, KernelError};
use crate::partial::{PartialFile, sync_parent};

/// The prefix of the names of built kernels.
pub(super) const BUILT: &str = "built-";
const IN_USE: &str = "in-use";

/// The selected built kernel, if it is intact.
pub(super) fn chosen(directory: &Path) -> Option<Kernel> {
    let name = fs::read_to_string(directory.join(IN_USE)).ok()?;
    // Accept only a plain name, so that a damaged file cannot lead elsewhere.
    let name = Some(name.trim()).filter(|name| name.starts_with(BUILT) && !name.contains('/'))?;
    Kernel::read(&directory.join(name)).ok()
}

/// Selects the kernel that was built here.
pub fn use_built(directory: &Path) -> Result<Kernel, KernelError> {
    let kernel = sound(directory, |name| name.starts_with(BUILT)).pop().ok_or(KernelError::NoneBuilt)?;
    choose(directory, &kernel)?;
    Ok(kernel)
}

/// Selects the distribution's kernel.
pub fn use_packaged(directory: &Path) -> Result<(), KernelError> {
    let path = directory.join(IN_USE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(KernelError::io("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// Selects a built kernel and removes other built kernels.
pub(super) fn choose(directory: &Path, kernel: &Kernel) -> Result<(), KernelError> {
    let path = directory.join(IN_USE);
    let name = kernel.image.parent().and_then(Path::file_name).unwrap_or_default();
    let write = || -> io::Result<()> {
        let mut file = PartialFile::create(directory, IN_USE)?;
        io::Write::write_all(file.file(), name.as_encoded_bytes())?;
        file.finish(&path)
    };
    write().map_err(KernelError::io("write", &path))?;
    for other in sound(directory, |other| other.starts_with(BUILT) && name != other) {
        if let Some(place) = other.image.parent() {
            // A failure only costs disk space.
            let _ = fs::remove_dir_all(place);
        }
    }
    sync_parent(&path).map_err(KernelError::io("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Boot, KernelSource, prepared};
    use agentiso_core::{Code, Explain};

    fn put(directory: &Path, name: &str, version: &str, source: KernelSource) {
        let place = directory.join(name);
        fs::create_dir_all(&place).unwrap();
        let image = place.join("vmlinux");
        fs::write(&image, version).unwrap();
        let (version, blake3) = (version.to_owned(), String::new());
        Kernel { version, image, boot: Boot::Pvh, modules: None, source, blake3 }.write(&place).unwrap();
    }

    fn version_in_use(directory: &Path) -> Option<String> {
        prepared(directory).map(|kernel| kernel.version)
    }

    #[test]
    fn a_built_kernel_is_used_when_it_was_chosen_and_only_then() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        assert_eq!(use_built(directory).unwrap_err().code(), Code::KernelNotFound);
        put(directory, "6.1.0", "6.1.0", KernelSource::Package("linux-image".to_owned()));
        put(directory, "built-6.12.1-a", "6.12.1", KernelSource::Built("linux-source".to_owned()));
        assert_eq!(version_in_use(directory).as_deref(), Some("6.1.0"));
        assert_eq!(use_built(directory).unwrap().version, "6.12.1");
        assert_eq!(version_in_use(directory).as_deref(), Some("6.12.1"));
        use_packaged(directory).unwrap();
        use_packaged(directory).unwrap();
        assert_eq!(version_in_use(directory).as_deref(), Some("6.1.0"));
    }

    #[test]
    fn a_damaged_choice_leads_back_to_the_packaged_kernel() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        put(directory, "6.1.0", "6.1.0", KernelSource::Package("linux-image".to_owned()));
        put(directory, "built-6.12.1-a", "6.12.1", KernelSource::Built("linux-source".to_owned()));
        use_built(directory).unwrap();
        for spoilt in ["../6.1.0", "built-x/../../6.1.0", "6.1.0", "built-gone", "\0"] {
            fs::write(directory.join(IN_USE), spoilt).unwrap();
            assert_eq!(chosen(directory), None, "{spoilt:?}");
        }
        use_built(directory).unwrap();
        fs::write(directory.join("built-6.12.1-a/vmlinux"), "cut").unwrap();
        assert_eq!(version_in_use(directory).as_deref(), Some("6.1.0"));
    }

    #[test]
    fn a_newly_built_kernel_takes_the_place_of_the_older_ones() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        put(directory, "built-6.12.1-a", "6.12.1", KernelSource::Built("linux-source".to_owned()));
        use_built(directory).unwrap();
        put(directory, "built-6.12.2-b", "6.12.2", KernelSource::Built("linux-source".to_owned()));
        choose(directory, &Kernel::read(&directory.join("built-6.12.2-b")).unwrap()).unwrap();
        assert_eq!(version_in_use(directory).as_deref(), Some("6.12.2"));
        assert!(!directory.join("built-6.12.1-a").exists());
    }
}
