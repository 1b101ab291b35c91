//! The format of specifications does not change within a version.

use agentiso_jail::{
    Bind, FileCapabilities, Limits, Measure, Mount, Network, Overlay, Root, ShownUser, Spec, Tmpfs,
};

const SAMPLE: &str = include_str!("samples/spec-1.json");

fn sample() -> Spec {
    let root = Overlay {
        lowers: vec!["/images/debian".into()],
        upper: Some("/w/upper".into()),
        work: Some("/w/work".into()),
        target: "/".into(),
        readonly: false,
    };
    let cache = Overlay {
        lowers: vec!["/a".into(), "/b".into()],
        upper: None,
        work: None,
        target: "/cache".into(),
        readonly: true,
    };
    Spec {
        version: 1,
        root: Root::Overlay(root),
        mounts: vec![
            Mount::Proc,
            Mount::Dev,
            Tmpfs::new("/tmp").with_size(1 << 20).into(),
            Bind::writable("/w/files", "/workspace").into(),
            cache.into(),
        ],
        volatile_overlays: true,
        supervised_renames: true,
        user: ShownUser::Root,
        file_capabilities: FileCapabilities::All,
        home: Spec::HOME.into(),
        hostname: "sandbox".to_owned(),
        network: Network::Namespace,
        limits: Limits {
            memory: Some(256 << 20),
            processes: Some(100),
            cpu_milli: Some(1500),
            cpu_seconds: Some(60),
            file_size: Some(1 << 30),
            open_files: Some(1024),
        },
        require: vec![Measure::Filesystem, Measure::Seccomp],
        scratch: Some("/w/scratch".into()),
    }
}

#[test]
fn version_1_is_written_and_read_as_it_was() {
    let spec = sample();
    spec.check().unwrap();
    assert_eq!(serde_json::to_string_pretty(&spec).unwrap(), SAMPLE.trim_end());
    assert_eq!(serde_json::from_str::<Spec>(SAMPLE).unwrap(), spec);
}

#[test]
fn a_field_or_version_that_is_unknown_is_refused() {
    let more = SAMPLE.replacen("\"version\": 1,", "\"version\": 1, \"more\": true,", 1);
    assert!(serde_json::from_str::<Spec>(&more).is_err());
    let newer: Spec =
        serde_json::from_str(&SAMPLE.replacen("\"version\": 1,", "\"version\": 2,", 1)).unwrap();
    assert!(newer.check().is_err());
}
