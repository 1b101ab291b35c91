//! Saving the state of CPU and devices, without memory.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;

use serde_json::json;

use super::Machine;
use crate::VmError;
use crate::qmp::Pending;

/// The fd set that the state is written to.
const FDSET: u32 = 1;

/// The file that QEMU writes the state to.
pub(super) struct DevicePlace(File);

impl DevicePlace {
    /// Reads the saved state.
    pub(super) fn read(mut self) -> Result<Vec<u8>, VmError> {
        let mut state = Vec::new();
        let read = self.0.rewind().and_then(|()| self.0.read_to_end(&mut state));
        read.map_err(VmError::io("read the state of the machine"))?;
        Ok(state)
    }
}

impl Machine {
    /// Gives QEMU a file for the state.
    #[expect(clippy::disallowed_methods, reason = "it opens a memfd, which waits for no device")]
    pub(super) async fn prepare_devices(&self) -> Result<DevicePlace, VmError> {
        let doing = || VmError::io("prepare for taking the machine's state");
        let place = rustix::fs::memfd_create("device-state", rustix::fs::MemfdFlags::CLOEXEC);
        let place = place.map_err(|error| doing()(error.into()))?;
        // QEMU accepts only a write-only descriptor.
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        let writer = File::options().write(true).open(path).map_err(doing())?;
        // An owner that died may have left a set with the same number.
        drop(self.qmp.send("remove-fd", json!({ "fdset-id": FDSET })));
        self.qmp.send_to_set(FDSET, writer.into()).answer().await?;
        Ok(DevicePlace(place.into()))
    }

    /// Saves the state. The machine must be stopped, or `stop` must have been sent.
    pub(super) fn save_devices(&self) -> Pending {
        let arguments = json!({ "filename": format!("/dev/fdset/{FDSET}"), "live": false });
        self.qmp.send("xen-save-devices-state", arguments)
    }
}
