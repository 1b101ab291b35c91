//! Notices what others did to the namespace, and repairs it.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;

use super::links::Links;
use super::netlink::{ACK, Attributes, Family, Message, Netlink};
use super::rules::BRIDGE;
use super::state::Shared;

/// How often it is looked. Nothing is open meanwhile that should not be: see the module's description.
const INTERVAL: Duration = Duration::from_secs(1);
const NFTABLES: u16 = 10 << 8;
const GET_TABLE: u16 = NFTABLES | 1;
const GET_CHAIN: u16 = NFTABLES | 4;

/// Looks from time to time. Must be called in a tokio runtime.
pub(super) fn start(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    let weak = Arc::downgrade(shared);
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let weak = Weak::clone(&weak);
            let Ok(goes_on) = tokio::task::spawn_blocking(move || look(&weak)).await else { return };
            if !goes_on {
                return;
            }
        }
    });
}

fn look(shared: &Weak<Shared>) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    // In the host's namespace: its addresses change when it changes networks.
    let addresses = Links::open().and_then(|mut links| links.addresses());
    if let Err(error) = addresses.and_then(|addresses| shared.set_host(addresses)) {
        tracing::warn!(%error, "the addresses of the host are not known");
    }
    match shared.namespace.run(is_intact).flatten() {
        Ok(true) => {}
        Ok(false) => {
            tracing::warn!("the bridge or its filter was changed by somebody else; they are set up again");
            if let Err(error) = shared.build() {
                tracing::error!(error = %error, cause = ?error.source, "the bridge cannot be repaired");
            }
        }
        Err(error) => tracing::warn!(%error, "the bridge cannot be looked at"),
    }
    true
}

/// Whether the bridge and the chains that refuse by default are there.
fn is_intact() -> io::Result<bool> {
    if Links::open()?.find(BRIDGE)?.is_none() {
        return Ok(false);
    }
    let mut netlink = Netlink::open(Family::Netfilter, 0)?;
    let chains = [(7, "prerouting"), (7, "input"), (2, "admit"), (2, "input"), (2, "forward"), (2, "leave")];
    for (family, chain) in chains {
        let table = Message::new(GET_TABLE, 0, &[family, 0, 0, 0]).with(1, &super::netlink::text("agentiso"));
        if !exists(&mut netlink, table)? {
            return Ok(false);
        }
        let name = super::netlink::text(chain);
        let chain = Message::new(GET_CHAIN, 0, &[family, 0, 0, 0])
            .with(1, &super::netlink::text("agentiso"))
            .with(3, &name);
        if !has_rules(&mut netlink, chain)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn exists(netlink: &mut Netlink, message: Message) -> io::Result<bool> {
    match netlink.exchange(message, ACK, |_, _| {}) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Whether a chain is there and not empty: the kernel counts its uses and rules.
fn has_rules(netlink: &mut Netlink, message: Message) -> io::Result<bool> {
    const USE: u16 = 6;
    let mut rules = 0;
    let result = netlink.exchange(message, ACK, |_, body| {
        let found = body.get(4..).and_then(|body| Attributes(body).find(|(kind, _)| *kind == USE));
        rules = found.and_then(|(_, value)| value.try_into().ok()).map_or(0, u32::from_be_bytes);
    });
    match result {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => Ok(false),
        result => result.map(|()| rules > 0),
    }
}
