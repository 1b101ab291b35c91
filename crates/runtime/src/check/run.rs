//! Running all checks.

use agentiso_blocking::in_place;
use agentiso_config::paths::Paths;
use agentiso_core::Code;

use super::{Finding, Report, Standing, data, host, network};
use crate::Installation;

/// Checks everything that machines need. Prepares and downloads nothing; only the acceleration probe starts a machine.
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
    let kernel = in_place(|| {
        findings.push(host::configuration(&installation.paths));
        findings.push(host::data_directory(&installation.paths.home));
        findings.push(match installation.qemu() {
            Ok(qemu) => Finding::ok("qemu", format!("{} at {}", qemu.version, qemu.path.display())),
            Err(failure) => Finding::failed("qemu", &failure),
        });
        findings.push(host::qemu_user(installation));
        findings.extend(host::isolation(installation));
        findings.extend(host::tools());
        let kernel = data::prepared_kernel(installation);
        findings.push(data::kernel_of_guests(kernel.as_ref()));
        kernel
    });
    if let (Ok(host), Some(_)) = (installation.host(), &kernel) {
        findings.extend(host::how_guests_run(installation, &host).await);
    }
    in_place(|| {
        findings.push(host::limits(installation));
    });
    findings.extend(network::network(installation).await);
    in_place(|| {
        findings.push(data::disks(installation));
        findings.push(data::images(installation));
        findings.push(data::templates(installation));
        findings.push(data::pool(installation));
        findings.extend(data::memory_images(installation));
        findings.extend(data::lost(&installation.paths));
    });
}

#[cfg(test)]
mod tests {
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
}
