//! Checks of the host: directories, QEMU, programs, devices, limits.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`")]

use std::path::Path;

use agentiso_blocking::in_place;
use agentiso_config::QemuIsolation;
use agentiso_config::paths::Paths;
use agentiso_core::{Code, Explain, Failure};
use agentiso_images::debian::{self, DebianError};
use agentiso_images::tools::Tool;
use agentiso_vmm::{Accel, Host, LinkKind};

use super::Finding;
use crate::{Installation, devices};

/// Free space below which images and templates are likely to fail.
const LOW_SPACE: u64 = 4 << 30;

pub(super) fn configuration(paths: &Paths) -> Finding {
    let path = paths.config_file.display();
    let there = paths.config_file.is_file();
    Finding::ok(
        "configuration",
        if there { path.to_string() } else { format!("{path} is not there; all defaults") },
    )
}

pub(super) fn data_directory(home: &Path) -> Finding {
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

pub(super) fn qemu_user(installation: &Installation) -> Finding {
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

/// Starts an isolated QEMU.
pub(super) fn isolation(installation: &Installation) -> Option<Finding> {
    let name = "isolation";
    // A missing QEMU is reported by its own check.
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

pub(super) fn tools() -> Vec<Finding> {
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

pub(super) async fn how_guests_run(installation: &Installation, host: &Host) -> Vec<Finding> {
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
            Accel::Tcg => Finding::warning("acceleration", detail, &in_place(devices::kvm_advice)),
        },
        Finding {
            fix: if link.link == LinkKind::Vsock { None } else { in_place(devices::vsock_advice) },
            ..Finding::ok("guest link", format!("{}: {}", link.link, link.reason))
        },
    ]
}

/// Puts a process into a cgroup with limits.
pub(super) fn limits(installation: &Installation) -> Finding {
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
