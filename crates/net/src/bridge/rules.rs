//! The packet filter as text for `nft`. Pure: every value is an address, a number or a name made here.
//!
//! ```text
//!  TAP ──► bridge table: card's MAC, address and ARP bound to the port; all else dropped
//!   └──► admit: mark (unmarked packets find no route), never reachable: refused
//!         ├──► input: the gateway's resolver and echo; all else refused
//!         └──► forward: limits ─► established ─► neighbours: near_A, to_B
//!                                            └─► internet: out_A ─► open (count, log) or refuse (log, reset)
//! ```

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::net::Ipv4Addr;

use agentiso_policy::egress::Policy;
use agentiso_policy::egress::packet::{self, RESOLVER_PORTS};
use ipnet::Ipv4Net;

use super::links::MARK;
use crate::limits::Limits;
use crate::plan::{GATEWAY_MAC, Pool};

/// The bridge of the namespace.
pub(super) const BRIDGE: &str = "workspaces";
/// The link to the host's network.
pub(super) const UPLINK: &str = "uplink";
/// The group of the kernel's log that refused and opened flows are sent to.
pub(super) const LOG_GROUP: u16 = 1;
/// How log entries of refused and opened flows start.
pub(super) const REFUSED: &str = "r";
pub(super) const OPENED: &str = "o";

/// Log entries per second and workspace, and how many at once.
const LOG_RATE: &str = "limit rate 100/second burst 500 packets";
/// Pings of the gateway.
const PING_RATE: &str = "limit rate 1000/second burst 100 packets";

/// The maps from a workspace's address to its chains, which are called like the map with the workspace's number.
const MAPS: [&str; 7] = ["limits", "out", "near", "to", "count", "refused", "ask"];

/// What the filter knows of a workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card<'a> {
    pub(super) address: Ipv4Addr,
    pub(super) mac: [u8; 6],
    pub(super) limits: &'a Limits,
}

/// A pinned address: how long it stays open, and whether it may be a resolver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pin {
    pub(super) address: Ipv4Addr,
    pub(super) seconds: u64,
    pub(super) listed: bool,
    pub(super) exact: bool,
}

/// The name of a workspace's TAP device, and the end of the names of its chains.
pub(super) fn device(address: Ipv4Addr) -> String {
    format!("w{:08x}", address.to_bits())
}

/// Both tables without workspaces, in place of whatever is there.
pub(super) fn base(pool: &Pool, host: &[Ipv4Addr]) -> String {
    let gateway = pool.gateway();
    let gateway_mac = mac(GATEWAY_MAC);
    let (wide, single) = packet::closed();
    let [first, second] = RESOLVER_PORTS;
    let maps: String =
        MAPS.iter().map(|map| format!("  map {map} {{ type ipv4_addr : verdict; }}\n")).collect();
    format!(
        "table bridge agentiso {{ }}
delete table bridge agentiso
table bridge agentiso {{
  set cards {{ type ifname . ether_addr . ipv4_addr; }}
  chain card {{
    ether type ip ether daddr {gateway_mac} iifname . ether saddr . ip saddr @cards accept
    ether type arp ether daddr {{ {gateway_mac}, ff:ff:ff:ff:ff:ff }} arp htype 1 arp operation request arp daddr ip {gateway} iifname . ether saddr . arp saddr ip @cards iifname . arp saddr ether . arp saddr ip @cards accept
    counter drop
  }}
  chain prerouting {{
    type filter hook prerouting priority -300; policy drop;
    goto card
  }}
  chain input {{
    type filter hook input priority -300; policy drop;
    goto card
  }}
}}
table ip agentiso {{ }}
delete table ip agentiso
table ip agentiso {{
  set host {{ type ipv4_addr; {host} }}
  set never {{ type ipv4_addr; flags interval; {never} }}
  set closed {{ type ipv4_addr; flags interval; {wide} }}
  set single {{ type ipv4_addr; {single} }}
  set resolvers {{ type ipv4_addr; flags interval; {resolvers} }}
{maps}
  chain refuse {{
    ip saddr vmap @refused
    meta l4proto tcp reject with tcp reset
    reject with icmp admin-prohibited
  }}
  chain open {{
    ip saddr vmap @count
    accept
  }}
  chain resolver {{
    ip daddr @resolvers goto refuse
    meta l4proto {{ tcp, udp }} th dport {{ {first}, {second} }} goto refuse
  }}
  chain admit {{
    type filter hook prerouting priority -150; policy drop;
    iifname \"{UPLINK}\" meta mark set {MARK} accept
    iifname != \"{BRIDGE}\" drop
    ip daddr @never goto refuse
    meta mark set {MARK} accept
  }}
  chain input {{
    type filter hook input priority 0; policy drop;
    iifname != \"{BRIDGE}\" drop
    ip daddr {gateway} udp dport 53 ip saddr vmap @ask
    ip daddr {gateway} tcp dport 53 ct state established accept
    ip daddr {gateway} tcp dport 53 ip saddr vmap @ask
    ip daddr {gateway} icmp type echo-request {PING_RATE} accept
    goto refuse
  }}
  chain forward {{
    type filter hook forward priority 0; policy drop;
    ip saddr vmap @limits
    ip daddr vmap @limits
    ct state established,related accept
    ct state invalid drop
    iifname != \"{BRIDGE}\" drop
    oifname \"{BRIDGE}\" goto neighbours
    ip saddr vmap @out
  }}
  chain neighbours {{
    ip saddr vmap @near
    ip daddr vmap @to
    goto refuse
  }}
  chain leave {{
    type nat hook postrouting priority 100; policy accept;
    oifname \"{UPLINK}\" masquerade
  }}
}}
",
        host = elements(host),
        never = elements(&packet::never_reachable()),
        wide = elements(&wide),
        single = elements(&single),
        resolvers = elements(&packet::resolver_ranges()),
    )
}

/// Adds a workspace, still without a policy: nothing passes.
pub(super) fn attach(card: &Card<'_>) -> String {
    let (address, name, limits) = (card.address, device(card.address), card.limits);
    let mut text = String::new();
    for set in ["pins", "exact"] {
        let _ = writeln!(text, "add set ip agentiso {set}_{name} {{ type ipv4_addr; flags timeout; }}");
    }
    for map in MAPS {
        let _ = writeln!(text, "add chain ip agentiso {map}_{name}");
    }
    let mut rule = |map: &str, rule: &str| {
        let _ = writeln!(text, "add rule ip agentiso {map}_{name} {rule}");
    };
    if limits.packets_per_second > 0 {
        let rate = limits.packets_per_second;
        rule("limits", &format!("limit rate over {rate}/second burst {} packets drop", (rate / 10).max(1)));
    }
    if limits.bytes_per_second > 0 {
        let rate = limits.bytes_per_second;
        rule(
            "limits",
            &format!("limit rate over {rate} bytes/second burst {} bytes drop", (rate / 10).max(65_536)),
        );
    }
    if limits.queries_per_second > 0 {
        let rate = limits.queries_per_second;
        rule("ask", &format!("limit rate over {rate}/second burst {rate} packets drop"));
    }
    rule("ask", "accept");
    rule("count", &format!("ct count over {} goto refuse", limits.connections.max(1)));
    rule("count", &format!("{LOG_RATE} log prefix \"{OPENED}\" group {LOG_GROUP}"));
    rule("refused", &format!("{LOG_RATE} log prefix \"{REFUSED}\" group {LOG_GROUP}"));
    for map in MAPS {
        // What decides ends there; what counts and logs comes back.
        let verdict = if matches!(map, "out" | "to" | "ask") { "goto" } else { "jump" };
        let _ = writeln!(text, "add element ip agentiso {map} {{ {address} : {verdict} {map}_{name} }}");
    }
    let _ =
        writeln!(text, "add element bridge agentiso cards {{ \"{name}\" . {} . {address} }}", mac(card.mac));
    text
}

/// Removes a workspace.
pub(super) fn detach(card: &Card<'_>) -> String {
    let (address, name) = (card.address, device(card.address));
    let mut text =
        format!("delete element bridge agentiso cards {{ \"{name}\" . {} . {address} }}\n", mac(card.mac));
    for map in MAPS {
        let _ = writeln!(text, "delete element ip agentiso {map} {{ {address} }}");
    }
    for map in MAPS {
        let _ = writeln!(text, "flush chain ip agentiso {map}_{name}");
    }
    for map in MAPS {
        let _ = writeln!(text, "delete chain ip agentiso {map}_{name}");
    }
    for set in ["pins", "exact"] {
        let _ = writeln!(text, "delete set ip agentiso {set}_{name}");
    }
    text
}

/// Replaces the policy of a workspace. `groups` has the number of every group; `denied` are addresses whose names are
/// all denied.
pub(super) fn policy(
    address: Ipv4Addr,
    policy: &Policy,
    groups: &BTreeMap<String, u32>,
    pins: &[Pin],
    denied: &[Ipv4Addr],
) -> String {
    let name = device(address);
    let rules = policy.packet_rules();
    let mut text = String::new();
    for map in ["out", "near", "to"] {
        let _ = writeln!(text, "flush chain ip agentiso {map}_{name}");
    }
    for set in ["pins", "exact"] {
        let _ = writeln!(text, "flush set ip agentiso {set}_{name}");
    }
    let mut rule = |map: &str, rule: &str| {
        let _ = writeln!(text, "add rule ip agentiso {map}_{name} {rule}");
    };
    let among = |list: &[Ipv4Net]| braces(list);
    let refused = among(&rules.denied);
    if let Some(denied) = &refused {
        rule("near", &format!("ip daddr {denied} goto refuse"));
    }
    if rules.internet {
        let single: Vec<Ipv4Net> = rules.single.iter().copied().map(Ipv4Net::from).collect();
        let unless =
            |list: &[Ipv4Net]| braces(list).map(|set| format!(" ip daddr != {set}")).unwrap_or_default();
        if let Some(denied) = &refused {
            rule("out", &format!("ip daddr {denied} goto refuse"));
        }
        rule("out", &format!("ip daddr @host{} goto refuse", unless(&single)));
        rule("out", &format!("ip daddr @single{} goto refuse", unless(&single)));
        rule("out", &format!("ip daddr @closed{} goto refuse", unless(&rules.opened)));
        let denied: Vec<Ipv4Net> = denied.iter().copied().map(Ipv4Net::from).collect();
        if let Some(denied) = among(&denied) {
            rule("out", &format!("ip daddr {denied} goto refuse"));
        }
        rule("out", &format!("ip daddr != @exact_{name}{} jump resolver", unless(&single)));
        match &rules.listed {
            None => rule("out", "goto open"),
            Some(listed) => {
                if let Some(listed) = among(listed) {
                    rule("out", &format!("ip daddr {listed} goto open"));
                }
                rule("out", &format!("ip daddr @pins_{name} goto open"));
            }
        }
    }
    rule("out", "goto refuse");
    let neighbour = policy.neighbour_rules();
    for group in neighbour.groups.into_iter().flatten().filter_map(|group| groups.get(group)) {
        match neighbour.ports {
            None => rule("to", &format!("ip saddr @group_{group} goto open")),
            Some(ports) if ports.is_empty() => {}
            Some(ports) => {
                let ports = join(ports);
                rule("to", &format!("ip saddr @group_{group} tcp dport {{ {ports} }} goto open"));
            }
        }
    }
    rule("to", "goto refuse");
    for one in pins {
        text.push_str(&pin(address, one));
    }
    text
}

/// Opens a pinned address for a time. One that is open already gets the new time.
pub(super) fn pin(workspace: Ipv4Addr, pin: &Pin) -> String {
    let name = device(workspace);
    let mut text = String::new();
    for set in [pin.listed.then_some("pins"), pin.exact.then_some("exact")].into_iter().flatten() {
        let Pin { address, seconds, .. } = pin;
        let add = format!("add element ip agentiso {set}_{name} {{ {address} timeout {seconds}s }}\n");
        let _ = write!(text, "{add}delete element ip agentiso {set}_{name} {{ {address} }}\n{add}");
    }
    text
}

/// Adds the set of a group.
pub(super) fn add_group(number: u32) -> String {
    format!("add set ip agentiso group_{number} {{ type ipv4_addr; }}\n")
}

/// Adds a workspace to a group, or removes it.
pub(super) fn join_group(number: u32, address: Ipv4Addr, joins: bool) -> String {
    let verb = if joins { "add" } else { "delete" };
    format!("{verb} element ip agentiso group_{number} {{ {address} }}\n")
}

/// Replaces the addresses of the host.
pub(super) fn host(addresses: &[Ipv4Addr]) -> String {
    let mut text = "flush set ip agentiso host\n".to_owned();
    if !addresses.is_empty() {
        let _ = writeln!(text, "add element ip agentiso host {{ {} }}", join(addresses));
    }
    text
}

fn braces(list: &[Ipv4Net]) -> Option<String> {
    let merged = Ipv4Net::aggregate(&list.to_vec());
    (!merged.is_empty()).then(|| format!("{{ {} }}", join(&merged)))
}

fn elements<T: Display>(list: &[T]) -> String {
    if list.is_empty() { String::new() } else { format!("elements = {{ {} }}", join(list)) }
}

fn join<T: Display>(list: impl IntoIterator<Item = T>) -> String {
    list.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
