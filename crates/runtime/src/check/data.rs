//! Checks of the data directory: kernel, disks, images, templates, pool, memory images, lost files.

use agentiso_config::paths::Paths;
use agentiso_core::ports::StorageStatus;
use agentiso_core::{Code, Failure};
use agentiso_images::kernel;
use agentiso_vmm::memory::MemoryFiles;
use agentiso_vmm::template::Verified;

use super::Finding;
use crate::Installation;
use crate::workspaces::Workspaces;
use crate::workspaces::pool_budget::{Allowed, Budget, HostMemory, budget};

pub(super) fn prepared_kernel(installation: &Installation) -> Option<kernel::Kernel> {
    kernel::prepared(&installation.paths.kernel_dir())
}

pub(super) fn kernel_of_guests(prepared: Option<&kernel::Kernel>) -> Finding {
    let name = "kernel";
    let Some(kernel) = prepared else {
        return Finding::missing(name, "none is prepared yet", "run 'agentiso init'");
    };
    let detail = format!("{} at {}", kernel.version, kernel.image.display());
    if !kernel.is_broken() {
        return Finding::ok(name, detail);
    }
    let dir = kernel.image.parent().unwrap_or(&kernel.image).display();
    let fix = format!("remove {dir}, run 'agentiso init', and start the machines again");
    Finding::warning(name, format!("{detail}: this version is known to break guests"), &fix)
}

pub(super) fn disks(installation: &Installation) -> Finding {
    let (name, disks) = ("disks", installation.disks());
    let detail = format!("{}: {}", disks.name(), installation.why_those_disks());
    match disks.storage_status() {
        Err(error) => Finding::failed(name, &error.into()),
        Ok(None) => Finding::ok(name, detail),
        Ok(Some(StorageStatus { detail: place, advice: None })) => {
            Finding::ok(name, format!("{detail}; {place}"))
        }
        Ok(Some(StorageStatus { detail: place, advice: Some(advice) })) => {
            Finding::warning(name, format!("{detail}; {place}"), &advice)
        }
    }
}

pub(super) fn images(installation: &Installation) -> Finding {
    let name = "images";
    let listed = installation.images().and_then(|store| store.list().map_err(Failure::from));
    match listed {
        Err(failure) => Finding::failed(name, &failure),
        Ok(images) if images.is_empty() => Finding::missing(
            name,
            "there are none yet",
            "run 'agentiso init' or 'agentiso image build debian'",
        ),
        Ok(images) => {
            let names: Vec<String> = images.iter().map(|image| image.meta.name.to_string()).collect();
            Finding::ok(name, names.join(", "))
        }
    }
}

pub(super) fn templates(installation: &Installation) -> Finding {
    let name = "templates";
    match installation.templates().verify_all() {
        Err(error) => Finding::failed(name, &installation.io("read the templates", error)),
        Ok(Verified { sound, removed, unread }) if removed.is_empty() && unread.is_empty() => {
            Finding::ok(name, format!("{sound}, all sound"))
        }
        Ok(Verified { sound, removed, unread }) if unread.is_empty() => Finding::warning(
            name,
            format!("{sound} sound; removed as damaged: {}", removed.join(", ")),
            "nothing: they are made again when they are needed",
        ),
        Ok(Verified { sound, unread, .. }) => Finding::warning(
            name,
            format!("{sound} sound; could not be read: {}", unread.join(", ")),
            "check the disk that the data directory is on",
        ),
    }
}

/// The machines that the daemon keeps ready.
pub(super) fn pool(installation: &Installation) -> Finding {
    let settings = &installation.config.pool;
    let Budget { allowed, why } = budget(settings, HostMemory::read_limited().ok());
    let detail = match allowed {
        Allowed::Nothing => format!("no machines are kept ready: {why}"),
        Allowed::Present(_) | Allowed::Memory(_) => {
            format!("{} machines of each size in use are kept ready: {why}", settings.size)
        }
    };
    let fix = "to have one all the same set pool.memory_mb, the MiB that its machines may have together";
    let small = allowed == Allowed::Nothing && settings.size > 0;
    Finding { fix: small.then(|| fix.to_owned()), ..Finding::ok("pool", detail) }
}

/// Memory images without checksums. Nothing is reported if there are none.
pub(super) fn memory_images(installation: &Installation) -> Option<Finding> {
    let name = "memory snapshots";
    match MemoryFiles::new(installation.paths.memory_dir()).count_unverifiable() {
        Ok(0) => None,
        Ok(count) => Some(Finding::warning(
            name,
            format!(
                "{count} were taken by an earlier version, without checksums: they are restored unverified"
            ),
            "take new ones where it matters",
        )),
        Err(error) => {
            Some(Finding::failed(name, &installation.io("read the directory of memory snapshots", error)))
        }
    }
}

/// Files that are not in the database. Nothing is reported if there are none.
pub(super) fn lost(paths: &Paths) -> Option<Finding> {
    let name = "lost";
    match Workspaces::lost_files(&paths.home) {
        Err(error) => {
            let failure =
                Failure::new(Code::of_io(&error), format!("{}: {error}", paths.lost_dir().display()));
            Some(Finding::failed(name, &failure))
        }
        Ok(counts) if counts.is_empty() => None,
        Ok(counts) => {
            let count = |kind| counts.get(kind).copied().unwrap_or(0);
            let detail = format!(
                "the database does not know {} disks, {} memory images and {} bases; they are kept in {}",
                count("disks"),
                count("memory"),
                count("bases"),
                paths.lost_dir().display()
            );
            Some(Finding::warning(name, detail, "list them with 'agentiso recover'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use agentiso_images::kernel::{Boot, Kernel, KernelSource};

    use super::super::Standing;
    use super::*;

    #[test]
    fn a_kernel_that_breaks_guests_is_named_with_the_way_out() {
        let finding = |version: &str| {
            kernel_of_guests(Some(&Kernel {
                version: version.to_owned(),
                image: format!("/data/kernel/{version}/vmlinux").into(),
                boot: Boot::Pvh,
                modules: None,
                source: KernelSource::Package(format!("linux-image-{version}")),
                blake3: String::new(),
            }))
        };
        assert_eq!(finding("6.1.0-54-cloud-amd64").standing, Standing::Ok);
        let broken = finding("6.1.0-55-cloud-amd64");
        assert_eq!(broken.standing, Standing::Warning);
        assert!(broken.fix.unwrap().contains("remove /data/kernel/6.1.0-55-cloud-amd64, run"));
    }
}
