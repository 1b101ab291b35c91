//! The other end of the machine's network card.
//!
//! The card is on a hub of its own in every machine, because the devices are part of a memory image. A machine without a
//! network has nothing else on the hub. To connect it, QEMU gets one end of a pair of datagram sockets, which is put on
//! the hub while the machine runs; QEMU itself can open no socket.

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

impl Machine {
    /// Connects the card to a socket. A former one is disconnected first.
    pub async fn plug_card(&self, socket: OwnedFd) -> Result<(), VmError> {
        // Commands are carried out in order, so one answer at the end tells whether all was done. Without a former socket
        // there is nothing to remove, which is not an error.
        drop(self.qmp.send("netdev_del", json!({ "id": PORT })));
        drop(self.qmp.send("netdev_del", json!({ "id": SOCKET })));
        let given = self.qmp.send_descriptor(DESCRIPTOR, socket);
        let local = json!({ "type": "fd", "str": DESCRIPTOR });
        let added = self.qmp.send("netdev_add", json!({ "type": "dgram", "id": SOCKET, "local": local }));
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
