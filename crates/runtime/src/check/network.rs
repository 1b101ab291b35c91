//! Checks of the workspaces' network. Machines run without it, so nothing here is a failure.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`, and procfs waits for no device")]

use std::path::Path;

use agentiso_core::Failure;
use agentiso_net::dns::Nameservers;

use super::{Finding, Standing};
use crate::Installation;
use crate::network::Net;

/// Which groups may ping.
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";
const RESOLVERS: &str = "/etc/resolv.conf";

/// The addresses, the resolvers, pings and the router.
pub(super) async fn network(installation: &Installation) -> Vec<Finding> {
    let opened = installation.router_process().and_then(|router| {
        let group = router.user.map_or(rustix::process::getegid().as_raw(), |user| user.gid);
        Ok((Net::new(&installation.paths, &installation.config.network, router)?, group))
    });
    let (net, group) = match opened {
        Ok(opened) => opened,
        Err(failure) => return vec![limited("network", &failure)],
    };
    let mut findings = vec![match net.check() {
        Ok(()) => Finding::ok("network", format!("{}, addresses from {}", net.describe(), net.pool.range())),
        Err(failure) => limited("network", &failure),
    }];
    findings.extend(net.more_missing().iter().map(|failure| limited("network", failure)));
    findings.push(resolvers());
    findings.push(pings(group));
    findings.push(match net.machines().await {
        Ok(Some((pid, machines))) => {
            Finding::ok("router", format!("process {pid}, {} machines attached", machines.len()))
        }
        Ok(None) => Finding::ok("router", "starts when a workspace first needs it"),
        Err(failure) => limited("router", &failure),
    });
    findings
}

fn resolvers() -> Finding {
    match Nameservers::Host(RESOLVERS.into()).list() {
        Ok(servers) => {
            let servers: Vec<String> = servers.iter().map(|server| server.ip().to_string()).collect();
            Finding::ok("resolvers", format!("{} from {RESOLVERS}", servers.join(", ")))
        }
        Err(error) => Finding::warning(
            "resolvers",
            format!("workspaces cannot resolve names: {error}"),
            "name a resolver of this host in /etc/resolv.conf",
        ),
    }
}

fn pings(group: u32) -> Finding {
    let text = std::fs::read_to_string(Path::new(PING_GROUPS)).unwrap_or_default();
    if may_ping(&text, group) {
        return Finding::ok("ping", "allowed for the group of the router");
    }
    Finding::warning(
        "ping",
        "workspaces cannot ping: the host lets no group of the router send pings",
        "run as root: sysctl net.ipv4.ping_group_range='0 2147483647'",
    )
}

/// Whether a group is in a range as the kernel writes it.
fn may_ping(range: &str, group: u32) -> bool {
    let mut bounds = range.split_whitespace().filter_map(|bound| bound.parse::<u32>().ok());
    matches!((bounds.next(), bounds.next()), (Some(first), Some(last)) if (first..=last).contains(&group))
}

fn limited(name: &'static str, failure: &Failure) -> Finding {
    Finding { standing: Standing::Warning, ..Finding::failed(name, failure) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_ping_if_it_is_in_the_range_of_the_kernel() {
        assert!(may_ping("0\t2147483647\n", 1000));
        assert!(!may_ping("1\t0\n", 0));
        assert!(!may_ping("", 0));
    }
}
