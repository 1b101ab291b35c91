//! Settings of an engine over a fake host.

use agentiso_core::{
    EngineSettings, ImageAccess, Isolation, Limits, RateLimits, Resources, SessionQuota, TransferSettings,
};

use super::TestRecords;

/// Settings that refuse nothing, with all files beside the records. Tests change what they are about.
pub fn engine_settings(records: &TestRecords) -> EngineSettings {
    EngineSettings {
        home: records.dir().to_owned(),
        config_file: records.dir().join("config.toml"),
        default_resources: Resources::default(),
        default_image: "debian".to_owned(),
        limits: Limits::default(),
        start_on_use: true,
        image_access: ImageAccess::Manage,
        isolation: Isolation::Shared,
        session_quota: SessionQuota { workspaces: 50, memory_mb: 100_000, disk_gb: 10_000, snapshots: 100 },
        adopt_idle_secs: 60,
        rates: RateLimits { enabled: false, create_per_minute: 3, exec_per_minute: 3, default_per_minute: 3 },
        transfers: TransferSettings {
            dir: records.dir().join("transfers"),
            max_bytes: 1 << 30,
            max_files: 10_000,
            reserve_bytes: 0,
        },
        network: Default::default(),
        own_ports: Vec::new(),
    }
}
