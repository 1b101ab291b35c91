//! Every back end keeps the same promises.

use agentiso_disks::Qcow2Layers;

#[test]
fn qcow2_layers_keep_all_promises() {
    let dir = tempfile::tempdir().unwrap();
    agentiso_testing::disks::conformance(&Qcow2Layers, dir.path());
}
