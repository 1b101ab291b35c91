//! Connections to the servers of a fake machine, which repeat what they hear.

use std::sync::Arc;

use agentiso_core::ports::link::{ConnectionReader, ConnectionWriter, LinkError};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::fake::machine::Machine;

/// Pieces that are on their way; a writer waits for the reader beyond that.
const UNDERWAY: usize = 16;

struct Reader {
    machine: Arc<Machine>,
    port: u16,
    heard: mpsc::Receiver<Bytes>,
}

struct Writer {
    machine: Arc<Machine>,
    port: u16,
    said: mpsc::Sender<Bytes>,
}

/// A connection to a server that repeats what it hears.
pub(super) fn echo(
    machine: Arc<Machine>,
    port: u16,
) -> (Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>) {
    let (said, heard) = mpsc::channel(UNDERWAY);
    let reader = Reader { machine: Arc::clone(&machine), port, heard };
    (Box::new(reader), Box::new(Writer { machine, port, said }))
}

/// Waits until the server is gone.
async fn gone(machine: &Machine, port: u16) -> LinkError {
    let mut watch = machine.watch();
    loop {
        if let Err(error) = machine.require_alive() {
            return error;
        }
        if !machine.look(|memory| memory.serves(port)) {
            return LinkError::Disconnected;
        }
        machine.change(&mut watch).await;
    }
}

#[async_trait]
impl ConnectionReader for Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        tokio::select! {
            biased;
            heard = self.heard.recv() => Ok(heard),
            error = gone(&self.machine, self.port) => Err(error),
        }
    }
}

#[async_trait]
impl ConnectionWriter for Writer {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        tokio::select! {
            sent = self.said.send(Bytes::copy_from_slice(bytes)) => sent.map_err(|_| LinkError::Disconnected),
            error = gone(&self.machine, self.port) => Err(error),
        }
    }
}
