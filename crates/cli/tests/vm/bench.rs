//! `agentiso bench` on real machines.

use std::process::Stdio;

use crate::common::{Started, agentiso};
use agentiso_testing::TestHome;

#[test]
fn an_interrupted_benchmark_leaves_no_machine_and_no_file() {
    let home = TestHome::new();
    let mut command = agentiso(&home);
    command.args(["bench", "--short", "--rounds", "1"]).stderr(Stdio::piped());
    let mut started = Started(command.spawn().unwrap());
    // The first part has one machine at a time. These are workspaces, which outlive the process that created them.
    while home.processes().len() < 3 {
        assert!(started.0.try_wait().unwrap().is_none(), "{:?}", started.finish());
        std::thread::yield_now();
    }
    started.signal("TERM");
    let (code, said) = started.finish();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("nothing was left behind"), "{said}");
    assert!(home.machines().is_empty() && home.processes().is_empty());
    let entries = std::fs::read_dir(home.path()).unwrap().flatten();
    let left: Vec<_> = entries.map(|entry| entry.file_name()).filter(is_of_a_measurement).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn is_of_a_measurement(name: &std::ffi::OsString) -> bool {
    name.to_string_lossy().starts_with("bench-")
}
