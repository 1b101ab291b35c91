//! The hosts that package managers are configured for.
//!
//! The package managers are asked themselves, on the host and in the workspace, so that mirrors work and no list of hosts
//! is needed here. What a workspace says is not trusted further than for names: it can open no address.

use std::net::Ipv4Addr;
use std::sync::Arc;

use agentiso_core::action::{Exec, PackageHost};
use agentiso_core::ports::packages::{MAX_REPORT, PackageSources};
use agentiso_core::progress::Silent;
use agentiso_core::{Code, Failure, NetworkRules, WorkspaceId};
use agentiso_policy::egress::DomainPattern;

use crate::upkeep::DAEMON;
use crate::{Caller, Engine};

/// The most hosts that are taken from one place.
const MOST: usize = 64;
/// How long the package managers of a workspace may take: under emulation each takes seconds to start.
const LIMIT_SECS: u64 = 120;

/// Prints one line per source: the tool, a space, and a URL or host. A tool that is missing prints nothing.
const SCRIPT: &str = r#"
say() { while read -r line; do [ -n "$line" ] && echo "$1 $line"; done; }
have() { command -v "$1" >/dev/null 2>&1; }
have apt-get && apt-get indextargets --format '$(SITE)' 2>/dev/null | sort -u | say apt
have apt-config && apt-config dump 2>/dev/null | sed -n 's/^Acquire::https\{0,1\}::Proxy\(-Auto-Detect\)\{0,1\} "\([a-z]*:.*\)";$/\2/p' | say apt
[ -r /etc/apk/repositories ] && grep -v '^#' /etc/apk/repositories | say apk
have dnf && dnf repolist --enabled -v 2>/dev/null | sed -n 's/^Repo-\(baseurl\|metalink\|mirrors\) *: *\([^ ,]*\).*/\2/p' | say dnf
printenv PIP_INDEX_URL PIP_EXTRA_INDEX_URL | tr ' ' '\n' | say pip
have python3 && python3 -m pip config list 2>/dev/null | sed -n "s/^[^=]*\(index-url\|find-links\|proxy\)='\(.*\)'$/\2/p" | tr ' ' '\n' | say pip
have python3 && python3 -c 'from pip._internal.models.index import PyPI
print(PyPI.url); print("https://" + PyPI.file_storage_domain + "/")' 2>/dev/null | say pip
have npm && npm config get registry 2>/dev/null | say npm
have yarn && yarn config get registry 2>/dev/null | say yarn
have go && go env GOPROXY 2>/dev/null | tr ',|' '\n\n' | say go
have gem && gem sources 2>/dev/null | say gem
for file in "${CARGO_HOME:-$HOME/.cargo}/config.toml" "${CARGO_HOME:-$HOME/.cargo}/config"; do
  [ -r "$file" ] && sed -n 's/^ *\(registry\|index\|proxy\) *= *"\(.*\)".*/\2/p' "$file" | sed 's/^sparse+//' | say cargo
done
have git && git config --get-regexp '^url\..*\.insteadof$' 2>/dev/null | sed 's/^url\.\(.*\)\.insteadof .*/\1/' | say git
printenv http_proxy https_proxy HTTP_PROXY HTTPS_PROXY | say proxy
:
"#;

/// What the package managers of the host are configured for.
pub(super) async fn of_host(sources: &dyn PackageSources) -> Result<Vec<PackageHost>, Failure> {
    Ok(parse(&sources.report(SCRIPT).await?, "host"))
}

/// What the package managers of a running workspace are configured for.
pub(super) async fn of_workspace(
    engine: &Arc<Engine>,
    workspace: WorkspaceId,
) -> Result<Vec<PackageHost>, Failure> {
    let ask = Exec {
        workspace_id: workspace.to_string(),
        command: SCRIPT.to_owned(),
        timeout_secs: Some(LIMIT_SECS),
        max_output_bytes: Some(MAX_REPORT as u64),
        background_after_secs: Some(0),
        ..Exec::default()
    };
    // It runs like any other command: under the command policy, and with an entry in the timeline.
    let asked = engine.act(&Caller::operator(DAEMON), ask, Arc::new(Silent)).await?;
    if asked.exit_code != Some(0) {
        let message = "the package managers of the workspace could not be asked what they are configured for";
        return Err(Failure::new(Code::GuestFailed, message)
            .with_remedy("name the hosts with allow_domains instead of using the preset"));
    }
    let mut hosts = parse(&asked.stdout, "workspace");
    hosts.retain(|one| one.host.parse::<Ipv4Addr>().is_err());
    Ok(hosts)
}

/// Allows hosts, in addition to what is allowed.
pub(super) fn allow(rules: &mut NetworkRules, hosts: &[PackageHost]) {
    for one in hosts {
        let is_address = one.host.parse::<Ipv4Addr>().is_ok();
        let list = if is_address { &mut rules.allow_cidrs } else { &mut rules.allow_domains };
        let list = list.get_or_insert_default();
        if !list.contains(&one.host) {
            list.push(one.host.clone());
        }
    }
}

/// The hosts in a report. Lines that make no sense are left out: a report may come from a guest.
fn parse(report: &str, place: &str) -> Vec<PackageHost> {
    let mut hosts: Vec<PackageHost> = Vec::new();
    for line in report.lines() {
        let Some((tool, source)) = line.split_once(' ') else { continue };
        let is_tool =
            !tool.is_empty() && tool.len() <= 16 && tool.bytes().all(|byte| byte.is_ascii_lowercase());
        let Some(host) = host_of(source.trim()).filter(|_| is_tool) else { continue };
        if hosts.iter().any(|one| one.host == host) {
            continue;
        }
        hosts.push(PackageHost { host, tool: tool.to_owned(), place: place.to_owned() });
        if hosts.len() == MOST {
            break;
        }
    }
    hosts.sort();
    hosts
}

/// The host of a URL: without user, port and path.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "http" | "https" | "ssh" | "git" | "ftp") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = host.split(':').next()?.to_ascii_lowercase();
    let is_name = DomainPattern::parse(&host).is_ok() && !host.starts_with("*.") && host.contains('.');
    (is_name || host.parse::<Ipv4Addr>().is_ok()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_what_tools_print() {
        let report = "apt http://deb.mirror.example/debian/\napt http://deb.mirror.example/debian-security/\n\
                      pip https://user:word@index.example:8443/simple\nnpm https://Registry.example/\n\
                      go https://proxy.go.example\ngo direct\nproxy http://10.0.0.5:3128\ngit git@x.example:a\n\
                      git ssh://git@code.example/\napt file:///srv/repo\n";
        let hosts: Vec<_> = parse(report, "host").into_iter().map(|one| (one.tool, one.host)).collect();
        let found = |tool: &str, host: &str| (tool.to_owned(), host.to_owned());
        assert_eq!(
            hosts,
            [
                found("proxy", "10.0.0.5"),
                found("git", "code.example"),
                found("apt", "deb.mirror.example"),
                found("pip", "index.example"),
                found("go", "proxy.go.example"),
                found("npm", "registry.example"),
            ]
        );
    }

    #[test]
    fn a_hostile_report_is_bounded_and_opens_no_pattern() {
        let wild = "apt http://*.example/\napt http://localhost/\nAPT http://a.example/\napt http://\u{e9}.example/\n\
                    apt http://a.example.%2f/\n\0\napt\n";
        assert_eq!(parse(wild, "workspace"), []);
        let many: String = (0..1000).map(|number| format!("apt http://h{number}.example/\n")).collect();
        assert_eq!(parse(&many, "workspace").len(), MOST);
    }
}
