//! Building the initramfs.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

use super::cpio::Cpio;
use super::modules::{ModuleIndex, module_name};
use crate::kernel::Kernel;
use crate::unpack;

/// The version of the archive: changes whenever the same agent and kernel would give another archive.
pub const VERSION: u32 = 1;
/// The file that lists the modules: one absolute path per line, in load order.
pub const MODULES_LIST: &str = "/modules.list";

/// Without these there is no console, no disk or no root file system.
const REQUIRED: [&str; 4] = ["virtio_mmio", "virtio_console", "virtio_blk", "ext4"];
/// Loaded if the kernel has them. ext4 requests crc32c by name at mount time, so it is not in the dependency index.
const OPTIONAL: [&str; 9] = [
    "crc32c_generic",
    "crc32c_intel",
    "virtio_net",
    "virtio_rng",
    "overlay",
    "vmw_vsock_virtio_transport",
    "fuse",
    "tun",
    "af_packet",
];
const DIRECTORIES: [&str; 9] = ["dev", "proc", "sys", "newroot", "tmp", "run", "lib", "lib/modules", "root"];
/// The largest unpacked module.
const MODULE_MAX: u64 = 256 << 20;

/// Why an initramfs could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitramfsError {
    /// The kernel lacks a required module.
    #[error("the kernel {version} has no {}", missing.join(", "))]
    MissingModules {
        /// The kernel.
        version: String,
        /// The missing modules.
        missing: Vec<String>,
    },
    /// A module or the index of modules cannot be read.
    #[error("could not read {}", path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Explain for InitramfsError {
    fn code(&self) -> Code {
        match self {
            Self::MissingModules { .. } => Code::KernelNotFound,
            Self::Module { source, .. } => Code::of_io(source),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::MissingModules { .. } => {
                Some("use a kernel with virtio and ext4, such as linux-image-cloud-amd64".to_owned())
            }
            Self::Module { path, .. } => {
                Some(format!("remove the prepared kernel and prepare it again: {}", path.display()))
            }
        }
    }
}

/// Builds the initramfs for a kernel, with `agent` as its `/init`. The same input gives the same bytes.
///
/// A kernel without a module tree is assumed to have everything built in.
pub fn build(agent: &[u8], kernel: &Kernel) -> Result<Vec<u8>, InitramfsError> {
    let mut cpio = Cpio::default();
    for directory in DIRECTORIES {
        cpio.directory(directory);
    }
    cpio.character_device("dev/console", 0o600, 5, 1);
    cpio.character_device("dev/null", 0o666, 1, 3);
    cpio.file("init", 0o755, agent);
    let mut list = String::new();
    if let Some(tree) = &kernel.modules {
        let failed = |path: PathBuf| move |source| InitramfsError::Module { path, source };
        let index = ModuleIndex::read(tree).map_err(failed(tree.join("modules.dep")))?;
        let missing: Vec<String> =
            REQUIRED.iter().filter(|name| !index.has(name)).map(|name| (*name).to_owned()).collect();
        if !missing.is_empty() {
            return Err(InitramfsError::MissingModules { version: kernel.version.clone(), missing });
        }
        for path in index.load_order(REQUIRED.into_iter().chain(OPTIONAL)) {
            let Some(name) = module_name(path) else { continue };
            let file = tree.join(path);
            let module = std::fs::read(&file).and_then(|bytes| unpack::bytes(&bytes, MODULE_MAX));
            let place = format!("lib/modules/{name}.ko");
            cpio.file(&place, 0o644, &module.map_err(failed(file))?);
            list.push_str(&format!("/{place}\n"));
        }
    }
    cpio.file(MODULES_LIST.trim_start_matches('/'), 0o644, list.as_bytes());
    Ok(cpio.finish())
}
