//! What the engine has to know of the configuration.

use agentiso_core::{EngineSettings, ImageAccess, Isolation, RateLimits, SessionQuota, TransferSettings};

use agentiso_config as config;

use crate::Installation;

impl Installation {
    /// The settings of an engine for this installation, which never forwards `own_ports`.
    pub fn engine_settings(&self, own_ports: Vec<u16>) -> EngineSettings {
        let config::Config { defaults, limits, vm, daemon, sessions, rate_limit, images, network, .. } =
            &self.config;
        EngineSettings {
            home: self.paths.home.clone(),
            config_file: self.paths.config_file.clone(),
            default_resources: defaults.resources(),
            default_image: defaults.image.clone(),
            limits: *limits,
            start_on_use: vm.start_on_use,
            image_access: match images.agents {
                config::ImageAccess::Off => ImageAccess::Off,
                config::ImageAccess::List => ImageAccess::List,
                config::ImageAccess::Manage => ImageAccess::Manage,
            },
            isolation: match sessions.isolation {
                config::Isolation::Shared => Isolation::Shared,
                config::Isolation::Strict => Isolation::Strict,
            },
            session_quota: SessionQuota {
                workspaces: sessions.max_workspaces,
                memory_mb: sessions.max_memory_mb,
                disk_gb: sessions.max_disk_gb,
                snapshots: sessions.max_snapshots,
            },
            adopt_idle_secs: sessions.adopt_idle_secs,
            rates: RateLimits {
                enabled: rate_limit.enabled,
                create_per_minute: rate_limit.create_per_minute,
                exec_per_minute: rate_limit.exec_per_minute,
                default_per_minute: rate_limit.default_per_minute,
            },
            transfers: TransferSettings {
                dir: daemon.transfer_dir.clone().unwrap_or_else(|| self.paths.home.join("transfers")),
                max_bytes: u64::from(daemon.download_max_gb) << 30,
                max_files: daemon.download_max_files.into(),
                reserve_bytes: u64::from(daemon.download_reserve_mb) << 20,
            },
            network: network.engine_settings(),
            own_ports,
        }
    }
}
