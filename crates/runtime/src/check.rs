//! What agentiso needs on this host: found or not, why, and what to do.

use std::path::Path;

use agentiso_core::ports::Keeping;
use agentiso_core::{Code, Explain, Failure};
use agentiso_images::debian::{self, DebianError};
use agentiso_images::kernel;
use agentiso_images::tools::Tool;
use agentiso_vmm::memory::MemoryFiles;
use agentiso_vmm::template::Verified;
use agentiso_vmm::{Accel, Host, LinkKind};
use serde::Serialize;

use crate::workspaces::Workspaces;
use crate::workspaces::pool_budget::{Allowed, Budget, HostMemory, budget};
use crate::{Installation, devices};
use agentiso_config::QemuIsolation;
use agentiso_config::paths::Paths;

/// Free space below which images and templates are likely to fail.
const LOW_SPACE: u64 = 4 << 30;

/// How one thing stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is there and works.
    Ok,
    /// Machines run without it, but worse.
    Warning,
    /// Machines do not run without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What was found.
    pub detail: String,
    /// What to do, if anything.
    pub fix: Option<String>,
}

/// Everything that was looked at.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether machines can run.
    pub ok: bool,
    /// What was found, in the order in which it is needed.
    pub findings: Vec<Finding>,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, standing: Standing::Ok, detail: detail.into(), fix: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { name, standing: Standing::Warning, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { name, standing: Standing::Missing, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    fn failed(name: &'static str, failure: &Failure) -> Self {
        let (detail, fix) = (failure.message().to_owned(), failure.remedy().map(str::to_owned));
        Self { name, standing: Standing::Missing, detail, fix }
    }
}

/// Looks at everything. Nothing is prepared or downloaded; only the acceleration probe starts a machine.
pub async fn check(paths: &Paths) -> Report {
    let mut findings = Vec::new();
    match Installation::open(paths.clone()) {
        Err(failure) => {
            let name = if failure.code() == Code::InvalidConfig { "configuration" } else { "data directory" };
            findings.push(Finding::failed(name, &failure));
        }
        Ok(installation) => look(&installation, &mut findings).await,
    }
    Report { ok: findings.iter().all(|finding| finding.standing != Standing::Missing), findings }
}

async fn look(installation: &Installation, findings: &mut Vec<Finding>) {
    findings.push(configuration(&installation.paths));
    findings.push(data_directory(&installation.paths.home));
    findings.push(match installation.qemu() {
        Ok(qemu) => Finding::ok("qemu", format!("{} at {}", qemu.version, qemu.path.display())),
        Err(failure) => Finding::failed("qemu", &failure),
    });
    findings.push(qemu_user(installation));
    findings.extend(isolation(installation));
    findings.extend(tools());
    let prepared = prepared_kernel(installation);
    findings.push(kernel_of_guests(prepared.as_ref()));
    if let (Ok(host), Some(_)) = (installation.host(), &prepared) {
        findings.extend(how_guests_run(installation, &host).await);
    }
    findings.push(limits(installation));
    findings.push(disks(installation));
    findings.push(images(installation));
    findings.push(templates(installation));
    findings.push(pool(installation));
    findings.extend(memory_images(installation));
    findings.extend(lost(&installation.paths));
}

/// What was found without being known to the database. Nothing is said if there is none.
fn lost(paths: &Paths) -> Option<Finding> {
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

/// Memory images without checksums, if there are any.
fn memory_images(installation: &Installation) -> Option<Finding> {
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

fn configuration(paths: &Paths) -> Finding {
    let path = paths.config_file.display();
    let there = paths.config_file.is_file();
    Finding::ok(
        "configuration",
        if there { path.to_string() } else { format!("{path} is not there; all defaults") },
    )
}

fn data_directory(home: &Path) -> Finding {
    let name = "data directory";
    let writable = tempfile::tempfile_in(home);
    if let Err(error) = writable {
        let failure =
            Failure::new(Code::of_io(&error), format!("{} cannot be written: {error}", home.display()))
                .with_remedy("make it writable, or set AGENTISO_HOME to a directory that is");
        return Finding::failed(name, &failure);
    }
    let free = rustix::fs::statvfs(home).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let detail = format!("{}, {} MiB free", home.display(), free >> 20);
    if free < LOW_SPACE {
        Finding::warning(name, detail, "free some space, or set AGENTISO_HOME to a larger disk")
    } else {
        Finding::ok(name, detail)
    }
}

fn qemu_user(installation: &Installation) -> Finding {
    let name = "qemu's user";
    let vm = &installation.config.vm;
    match installation.users() {
        Err(failure) => Finding::failed(name, &failure),
        Ok(None) => Finding::ok(name, "the one who runs agentiso; root is not needed"),
        Ok(Some(users)) => match users.range() {
            Some((first, last)) => Finding::ok(
                name,
                format!("one for each machine, {first} to {last}, with the group of {}", vm.user),
            ),
            None if vm.uids == 0 => {
                Finding::ok(name, format!("{} for all machines, because vm.uids is 0", vm.user))
            }
            None => Finding::warning(
                name,
                format!(
                    "{} for all machines: the user ids from {} on do not exist here",
                    vm.user, vm.first_uid
                ),
                "set vm.first_uid and vm.uids to ids that /proc/self/uid_map lists, from 65536 on",
            ),
        },
    }
}

/// By starting a QEMU that way.
fn isolation(installation: &Installation) -> Option<Finding> {
    let name = "isolation";
    // Without a QEMU there is nothing to isolate, which was said.
    let qemu = installation.qemu().ok()?;
    Some(match installation.isolation(&qemu) {
        None => Finding::warning(
            name,
            "off: vm.isolation is \"off\"; a QEMU that a guest takes over reaches what its user reaches",
            "remove vm.isolation from the configuration",
        ),
        Some(Ok(isolation)) => {
            let landlock = isolation.landlock().map(|version| format!(", Landlock {version}"));
            let detail = "mount, network and ipc namespaces and a root of its own for each QEMU";
            Finding::ok(name, format!("{detail}{}", landlock.unwrap_or_else(|| "; no Landlock".to_owned())))
        }
        Some(Err(failure)) if installation.config.vm.isolation == QemuIsolation::Required => {
            Finding::failed(name, &failure)
        }
        Some(Err(failure)) => Finding::warning(
            name,
            format!("machines run without: {}", failure.message()),
            failure.remedy().unwrap_or_default(),
        ),
    })
}

fn tools() -> Vec<Finding> {
    let found = |name, package| Tool::find(name, package);
    let needed = ["mke2fs", "e2fsck", "resize2fs"].map(|name| (name, found(name, "e2fsprogs")));
    let mut findings: Vec<Finding> = needed
        .into_iter()
        .map(|(name, tool)| match tool {
            Ok(_) => Finding::ok(name, "found"),
            Err(error) => Finding::failed(name, &error.into()),
        })
        .collect();
    findings.push(
        match found("mmdebstrap", "mmdebstrap").map_err(DebianError::from).and_then(|_| debian::mode()) {
            Ok("root") => Finding::ok("mmdebstrap", "found"),
            Ok(_) => Finding::ok("mmdebstrap", "found; builds in a user namespace, without root"),
            Err(error) => {
                let detail = format!("{error}; only building Debian images needs it");
                Finding::warning("mmdebstrap", detail, &error.remedy().unwrap_or_default())
            }
        },
    );
    findings
}

fn prepared_kernel(installation: &Installation) -> Option<kernel::Kernel> {
    kernel::prepared(&installation.paths.kernel_dir())
}

fn kernel_of_guests(prepared: Option<&kernel::Kernel>) -> Finding {
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

async fn how_guests_run(installation: &Installation, host: &Host) -> Vec<Finding> {
    let found = async {
        let kernel = installation.guest_kernel().await?;
        let acceleration = installation.acceleration(host, &kernel).await;
        let link = installation.link(host, &kernel, acceleration.accel).await;
        Ok::<_, Failure>((acceleration, link))
    };
    let (acceleration, link) = match found.await {
        Ok(found) => found,
        Err(failure) => return vec![Finding::failed("acceleration", &failure)],
    };
    let detail = format!("{}: {}", acceleration.accel, acceleration.reason);
    vec![
        match acceleration.accel {
            Accel::Kvm => Finding::ok("acceleration", detail),
            Accel::Tcg => Finding::warning("acceleration", detail, &devices::kvm_advice()),
        },
        Finding {
            fix: if link.link == LinkKind::Vsock { None } else { devices::vsock_advice() },
            ..Finding::ok("guest link", format!("{}: {}", link.link, link.reason))
        },
    ]
}

/// By holding a process to them.
fn limits(installation: &Installation) -> Finding {
    let name = "limits";
    let Some(confinement) = installation.confinement() else {
        return Finding::ok(name, "off: resources.cgroup is \"off\"");
    };
    match confinement.try_out() {
        Ok(trial) => {
            let io = if trial.limits.io.is_some() { ", disk traffic" } else { "" };
            let detail = format!("memory, processor time, threads{io}: {}", trial.place.display());
            Finding::ok(name, detail)
        }
        Err(error) if installation.config.resources.cgroup_required => {
            Finding::failed(name, &Failure::from(error))
        }
        Err(error) => {
            let detail = format!("machines run without, or without all: {}", agentiso_core::chain(&error));
            Finding::warning(name, detail, &error.remedy().unwrap_or_default())
        }
    }
}

fn disks(installation: &Installation) -> Finding {
    let (name, disks) = ("disks", installation.disks());
    let detail = format!("{}: {}", disks.name(), installation.why_those_disks());
    match disks.keeping() {
        Err(error) => Finding::failed(name, &error.into()),
        Ok(None) => Finding::ok(name, detail),
        Ok(Some(Keeping { detail: place, advice: None })) => Finding::ok(name, format!("{detail}; {place}")),
        Ok(Some(Keeping { detail: place, advice: Some(advice) })) => {
            Finding::warning(name, format!("{detail}; {place}"), &advice)
        }
    }
}

fn images(installation: &Installation) -> Finding {
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

/// What the daemon keeps ready.
fn pool(installation: &Installation) -> Finding {
    let settings = &installation.config.pool;
    let Budget { allowed, why } = budget(settings, HostMemory::read().ok());
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

fn templates(installation: &Installation) -> Finding {
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

#[cfg(test)]
mod tests {
    use agentiso_images::kernel::{Boot, Kernel, KernelSource};

    use super::*;

    #[tokio::test]
    async fn a_host_without_kernel_and_image_cannot_run_machines() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_owned();
        let paths = Paths {
            run_dir: home.join("run"),
            config_file: home.join("config.toml"),
            config_named: false,
            home,
        };
        let report = check(&paths).await;
        assert!(!report.ok);
        for name in ["kernel", "images"] {
            let finding = report.findings.iter().find(|finding| finding.name == name).unwrap();
            assert_eq!(finding.standing, Standing::Missing, "{name}");
            assert!(finding.fix.as_ref().unwrap().contains("agentiso init"), "{name}");
        }
    }

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
