//! The resolver on the gateway's address in the namespace. Its questions to others leave through the host's network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::client::Client;
use super::state::Shared;
use crate::dns::{Asker, answer_datagram, serve_stream};

/// Queries and connections that are answered at the same time.
const CONCURRENT: usize = 1024;
const MAX_QUERY: usize = 4096;
/// The pause after a failed accept.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Answers queries. Must be called in a tokio runtime.
pub(super) fn start(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) -> io::Result<()> {
    let address = SocketAddr::from((shared.pool.gateway(), 53));
    let bound = shared.namespace.run(move || {
        let datagrams = std::net::UdpSocket::bind(address)?;
        let streams = std::net::TcpListener::bind(address)?;
        datagrams.set_nonblocking(true)?;
        streams.set_nonblocking(true)?;
        Ok((datagrams, streams))
    });
    let (datagrams, streams) = bound.flatten()?;
    let slots = Arc::new(Semaphore::new(CONCURRENT));
    tasks.spawn(answer(
        Arc::new(UdpSocket::from_std(datagrams)?),
        Arc::downgrade(shared),
        Arc::clone(&slots),
    ));
    tasks.spawn(accept(TcpListener::from_std(streams)?, Arc::downgrade(shared), slots));
    Ok(())
}

async fn answer(socket: Arc<UdpSocket>, shared: Weak<Shared>, slots: Arc<Semaphore>) {
    let mut buffer = vec![0; MAX_QUERY];
    loop {
        let received = socket.recv_from(&mut buffer).await;
        let Ok((length, from)) = received else { continue };
        let (Some(client), Ok(slot)) = (asker(&shared, from), Arc::clone(&slots).try_acquire_owned()) else {
            continue;
        };
        if !client.take_query() {
            continue;
        }
        let (socket, query) = (Arc::clone(&socket), buffer[..length].to_vec());
        tokio::spawn(async move {
            let _slot = slot;
            if let Some(answer) = answer_datagram(&*client, &query).await {
                // A guest that is gone asks no more.
                let _ = socket.send_to(&answer, from).await;
            }
        });
    }
}

async fn accept(listener: TcpListener, shared: Weak<Shared>, slots: Arc<Semaphore>) {
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, from)) = accepted else {
            // Without a free descriptor the next one would fail at once, too.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let (Some(client), Ok(slot)) = (asker(&shared, from), Arc::clone(&slots).try_acquire_owned()) {
            tokio::spawn(async move {
                let _slot = slot;
                serve_stream(client, stream).await;
            });
        }
    }
}

/// The workspace that a query comes from: the filter lets every card use its own address alone.
fn asker(shared: &Weak<Shared>, from: SocketAddr) -> Option<Arc<Client>> {
    match from.ip() {
        IpAddr::V4(address) => shared.upgrade()?.client(address),
        IpAddr::V6(_) => None,
    }
}
