//! A machine is copied while the host and its agent are in the middle of a frame.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::DiskSource;
use agentiso_core::{Resources, WorkspaceId};
use agentiso_proto::{Exec, Inherit, Wake, WakeEvent};
use agentiso_runtime::guest::ProcessEvent;
use agentiso_runtime::{Installation, StartRequest};
use agentiso_testing::TestHome;
use agentiso_vmm::link::Resync;
use agentiso_vmm::qemu::DiskFile;
use agentiso_vmm::{
    DeviceState, DiskFreeze, Fill, Launch, RestoreFrom, SaveRequest, Standby, TakeMemory, TakenMemory,
};

use crate::common::{paths, silent};

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_frame_in_flight_does_not_break_a_copy() {
    let home = TestHome::new();
    // The test gives the running machine disks that an isolated QEMU could not see.
    home.configure("[vm]\nisolation = \"off\"\n");
    let installation = Installation::open(paths(home.path())).unwrap();
    let request = StartRequest {
        id: WorkspaceId::from_uuid(uuid::Uuid::now_v7()),
        image: "debian".parse().unwrap(),
        resources: Resources { memory_mb: 256, ..Resources::default() },
        cold: false,
    };
    let running = installation.start(&request, &silent()).await.unwrap();
    let machine = &running.machine;
    // A command that reads no input, and more input than all buffers hold: the host's last frame is cut where the guest
    // stopped reading. Nobody reads its output, so the guest's last frame is cut too.
    let argv =
        ["/bin/sh", "-c", "yes; cat > /dev/null"].iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut process = machine.guest().exec(Exec { argv, stdin: true, ..Exec::default() }).await.unwrap();
    let mut input = process.take_stdin().unwrap();
    let sending = tokio::spawn(async move {
        let bytes = vec![7; 64 * 1024];
        while input.write(&bytes).await.is_ok() {}
    });
    machine.during("coming to rest", LIMIT, machine.guest().hold(false)).await.unwrap();
    assert!(!machine.guest().is_quiet());

    let dir = home.path().join("machines").join(request.id.to_string());
    let from = dir.join("disk").with_extension(installation.disks().extension());
    let size = request.resources.disk_bytes();
    let [to, copy] =
        ["to", "copy"].map(|name| dir.join(name).with_extension(installation.disks().extension()));
    for path in [&to, &copy] {
        installation.disks().create(path, &DiskSource::Layer(from.clone()), size).unwrap();
        hand_over(&dir, path);
    }
    let format = installation.disks().qemu_format();
    let disk = Some(DiskFreeze::Switch { from, to, format });
    let prepared = machine.prepare(SaveRequest { memory: TakeMemory::Pages, disk }).await.unwrap();
    let captured = machine.take(prepared).await.unwrap_or_else(|failed| panic!("{failed:?}"));
    assert_eq!(captured.resync, Resync::Unknown);
    let TakenMemory::Pages(pages) = captured.memory else { panic!("{:?}", captured.memory) };
    sending.abort();

    let record = machine.record().unwrap();
    let copy_dir = home.path().join("copy");
    std::fs::create_dir(&copy_dir).unwrap();
    hand_over(&dir, &copy_dir);
    let launch = Launch {
        dir: &copy_dir,
        hardware: record.hardware,
        user: None,
        disk: DiskFile::File { path: copy, format, below: Vec::new(), own: None },
        memory: record.memory,
        ephemeral: true,
        spare_port: false,
    };
    let standby = Standby::spawn(&installation.host().unwrap(), &launch).unwrap();
    let state = RestoreFrom {
        device: DeviceState::Bytes(Arc::new(captured.device)),
        fill: Fill::Taken(Arc::new(pages)),
        inherit: Inherit::Held,
        resync: captured.resync,
    };
    let copy = standby.restore(state).await.unwrap();
    let wake = Wake { event: WakeEvent::Fork, ..Wake::default() };
    copy.during("waking", LIMIT, copy.guest().wake(wake)).await.unwrap();
    let argv = vec![b"/bin/echo".to_vec(), b"here".to_vec()];
    let mut echo = copy.guest().exec(Exec { argv, ..Exec::default() }).await.unwrap();
    let mut said = Vec::new();
    while let Some(event) = copy.during("answering", LIMIT, echo.next()).await.unwrap() {
        if let ProcessEvent::Stdout(bytes) = event {
            said.extend_from_slice(&bytes);
        }
    }
    assert_eq!(said, b"here\n");
    copy.kill().await;
    running.destroy().await;
}

/// Gives a file to the owner of a machine's directory.
fn hand_over(dir: &std::path::Path, path: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::metadata(dir).unwrap();
    std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}
