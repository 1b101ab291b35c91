//! The other end of the machine's network card.
//!
//! The card is on a hub of its own in every machine, because the devices are part of a memory image. A machine without a
//! network has nothing else on the hub. To connect it, QEMU gets one end of a pair of datagram sockets, or the file of a
//! TAP device, which is put on the hub while the machine runs; QEMU itself can open neither.

use std::os::fd::OwnedFd;

use serde_json::json;

use super::Machine;
use crate::VmError;

/// QEMU's names of the socket, of its place on the hub, and of the descriptor until it is used.
const SOCKET: &str = "uplink";
const PORT: &str = "uplink-port";
const DESCRIPTOR: &str = "uplink-socket";
/// The hub of the card.
const HUB: u32 = 0;

/// What a card is connected to.
#[derive(Debug)]
pub enum Plug {
    /// One end of a pair of datagram sockets, with a frame in each datagram.
    Datagrams(OwnedFd),
    /// One end of a pair of stream sockets, with the length in front of each frame.
    Stream(OwnedFd),
    /// The file of a TAP device.
    Tap(OwnedFd),
}

impl Machine {
    /// Connects the card. What it was connected to before is disconnected first.
    pub async fn plug_card(&self, plug: Plug) -> Result<(), VmError> {
        // Commands are carried out in order, so one answer at the end tells whether all was done. Without a former socket
        // there is nothing to remove, which is not an error.
        drop(self.qmp.send("netdev_del", json!({ "id": PORT })));
        drop(self.qmp.send("netdev_del", json!({ "id": SOCKET })));
        let (descriptor, device) = match plug {
            Plug::Datagrams(socket) => {
                let local = json!({ "type": "fd", "str": DESCRIPTOR });
                (socket, json!({ "type": "dgram", "id": SOCKET, "local": local }))
            }
            Plug::Stream(socket) => {
                // QEMU 7.2 cannot take a named descriptor for its newer kind, `stream`.
                let device = json!({ "type": "socket", "id": SOCKET, "fd": DESCRIPTOR });
                (socket, device)
            }
            Plug::Tap(file) => (file, json!({ "type": "tap", "id": SOCKET, "fd": DESCRIPTOR })),
        };
        let given = self.qmp.send_descriptor(DESCRIPTOR, descriptor);
        let added = self.qmp.send("netdev_add", device);
        let port = json!({ "type": "hubport", "id": PORT, "hubid": HUB, "netdev": SOCKET });
        let placed = self.qmp.send("netdev_add", port);
        given.answer().await?;
        if let Err(error) = added.answer().await {
            drop(self.qmp.send("closefd", json!({ "fdname": DESCRIPTOR })));
            return Err(error.into());
        }
        if let Err(error) = placed.answer().await {
            drop(self.qmp.send("netdev_del", json!({ "id": SOCKET })));
            return Err(error.into());
        }
        Ok(())
    }

    /// Disconnects the card. Nothing happens if it is not connected.
    pub async fn unplug_card(&self) -> Result<(), VmError> {
        let port = self.qmp.send("netdev_del", json!({ "id": PORT }));
        let socket = self.qmp.send("netdev_del", json!({ "id": SOCKET }));
        for answer in [port.answer().await, socket.answer().await] {
            match answer {
                Err(crate::qmp::QmpError::Refused { .. }) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
