//! Flags of the network.

use agentiso_core::{Ask, Egress, NetworkChange};
use clap::{Args, Subcommand, ValueEnum};

use super::values::workspaces;

/// What a workspace may reach.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Network")]
pub struct NetworkFlags {
    /// Start from a preset: off, packages (the hosts of package managers), open, or one from the configuration
    #[arg(long, value_name = "PRESET")]
    pub net: Option<String>,
    /// Allow the internet, except private addresses and the host
    #[arg(long, overrides_with = "no_internet")]
    pub internet: bool,
    /// Do not allow the internet
    #[arg(long, overrides_with = "internet")]
    pub no_internet: bool,
    /// Allow this name on the internet and nothing else that is not listed (*.NAME: every name below it); may be repeated
    #[arg(long = "allow-domain", value_name = "NAME")]
    pub allow_domains: Vec<String>,
    /// Never allow this name; may be repeated
    #[arg(long = "deny-domain", value_name = "NAME")]
    pub deny_domains: Vec<String>,
    /// Allow this address or range, also a private one, and nothing else that is not listed; may be repeated
    #[arg(long = "allow-cidr", value_name = "RANGE")]
    pub allow_cidrs: Vec<String>,
    /// Never allow this address or range; may be repeated
    #[arg(long = "deny-cidr", value_name = "RANGE")]
    pub deny_cidrs: Vec<String>,
    /// Allow connections with other workspaces of the same group that allow it too
    #[arg(long, overrides_with = "no_inter_vm")]
    pub inter_vm: bool,
    /// Do not allow connections with other workspaces
    #[arg(long, overrides_with = "inter_vm")]
    pub no_inter_vm: bool,
    /// Group of the workspace; may be repeated [default: default]
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// TCP port on which other workspaces may connect to this one; may be repeated [default: all]
    #[arg(long = "allow-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub allowed_ports: Vec<u16>,
    /// How connections leave the workspace
    #[arg(long, value_enum)]
    pub egress: Option<EgressFlag>,
    /// What happens when a destination is refused
    #[arg(long, value_enum)]
    pub ask: Option<AskFlag>,
}

/// How connections leave a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum EgressFlag {
    /// To the address that the rules allow
    Direct,
    /// Through the proxy, which checks names and inserts secrets
    Proxy,
}

/// What happens when a destination is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AskFlag {
    /// Nothing else
    Off,
    /// A request for approval is raised (agentiso inbox)
    Refuse,
    /// The connection also waits for the answer
    Wait,
}

impl NetworkFlags {
    /// The change that the flags mean. Lists mean that the internet is allowed as listed.
    pub fn change(self) -> NetworkChange {
        fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
            (!list.is_empty()).then_some(list)
        }
        let switch = |on: bool, off: bool| if on { Some(true) } else { off.then_some(false) };
        let lists = !self.allow_domains.is_empty() || !self.allow_cidrs.is_empty();
        NetworkChange {
            preset: self.net,
            allow_internet: switch(self.internet || (lists && !self.no_internet), self.no_internet),
            allow_domains: given(self.allow_domains),
            deny_domains: given(self.deny_domains),
            allow_cidrs: given(self.allow_cidrs),
            deny_cidrs: given(self.deny_cidrs),
            allow_inter_vm: switch(self.inter_vm, self.no_inter_vm),
            groups: given(self.groups),
            allowed_ports: given(self.allowed_ports),
            egress: self.egress.map(|egress| match egress {
                EgressFlag::Direct => Egress::Direct,
                EgressFlag::Proxy => Egress::Proxy,
            }),
            http_rules: None,
            ask: self.ask.map(|ask| match ask {
                AskFlag::Off => Ask::Off,
                AskFlag::Refuse => Ask::Refuse,
                AskFlag::Wait => Ask::Wait,
            }),
        }
    }

    /// The change, if there is one.
    pub fn change_if_any(self) -> Option<NetworkChange> {
        Some(self.change()).filter(|change| !change.is_empty())
    }
}

/// Verbs of `net`.
#[derive(Debug, Subcommand)]
pub enum NetVerb {
    /// Change what a workspace may reach; takes effect at once
    #[command(
        after_help = "Rules that are not given keep their value; a list replaces the previous list. Connections that \
                            are no longer allowed are cut.\n\n\
                            Examples:\n  \
                            agentiso net policy web --net packages\n  \
                            agentiso net policy web --allow-domain example.com --allow-domain '*.example.org'\n  \
                            agentiso net policy web --net off\n  \
                            agentiso net policy web --ask refuse      then: agentiso inbox"
    )]
    Policy {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// What it may reach.
        #[command(flatten)]
        rules: Box<NetworkFlags>,
    },
    /// Show what a workspace may reach, and its address
    #[command(after_help = "Example:\n  agentiso net show web")]
    Show {
        /// The workspace
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
    },
    /// Show connections and refused attempts of a workspace, or of all
    #[command(after_help = "With --json and --follow, each line is one entry.\n\n\
                            Examples:\n  \
                            agentiso net log web\n  \
                            agentiso net log --refused --follow")]
    Log {
        /// The workspace [default: all]
        #[arg(value_name = "WS", add = workspaces())]
        workspace: Option<String>,
        /// Keep printing new entries until interrupted
        #[arg(long, short)]
        follow: bool,
        /// Show only refused attempts
        #[arg(long)]
        refused: bool,
        /// Show this many of the newest entries
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
}

/// Flags of `inbox`.
#[derive(Args, Debug)]
#[command(
    after_help = "Requests are answered by you or by an approver, never by the session that asked.\n\n\
                        Examples:\n  \
                        agentiso inbox\n  \
                        agentiso inbox grant 1b4e28ba             once: for ten minutes\n  \
                        agentiso inbox grant 1b4e28ba --workspace\n  \
                        agentiso inbox deny 1b4e28ba"
)]
pub struct Inbox {
    /// What to do [default: ls]
    #[command(subcommand)]
    pub verb: Option<InboxVerb>,
}

/// Verbs of `inbox`.
#[derive(Debug, Subcommand)]
pub enum InboxVerb {
    /// List requests that wait for an answer
    #[command(visible_alias = "list", after_help = "Example:\n  agentiso inbox ls --all")]
    Ls {
        /// Also list requests that were answered or have expired
        #[arg(long, short)]
        all: bool,
        /// If there is none, wait up to this long for one: 90s, 10m, 1h
        #[arg(long, value_name = "TIME", value_parser = super::quantity::seconds)]
        wait: Option<u64>,
    },
    /// Grant a request
    #[command(
        after_help = "Examples:\n  agentiso inbox grant 1b4e28ba\n  agentiso inbox grant 1b4e28ba --always"
    )]
    Grant {
        /// The request's id, or the beginning of it
        #[arg(value_name = "REQUEST")]
        request: String,
        /// Add it to the rules of the workspace [default: allow it for ten minutes]
        #[arg(long, conflicts_with = "always")]
        workspace: bool,
        /// Add it to the rules of all workspaces that ask, now and later
        #[arg(long)]
        always: bool,
    },
    /// Deny a request, or revoke a grant
    #[command(
        after_help = "The same request is not raised again for an hour.\n\nExample:\n  agentiso inbox deny 1b4e28ba"
    )]
    Deny {
        /// The request's id, or the beginning of it
        #[arg(value_name = "REQUEST")]
        request: String,
    },
    /// Allow a session to answer requests of other sessions, or revoke that
    #[command(after_help = "The permission ends with the session. `agentiso sessions` lists sessions.\n\n\
                            Examples:\n  \
                            agentiso inbox approver 1f6c0a2e\n  \
                            agentiso inbox approver 1f6c0a2e --remove")]
    Approver {
        /// The session's id, or the beginning of it
        #[arg(value_name = "SESSION")]
        session: String,
        /// Revoke the permission
        #[arg(long)]
        remove: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_mean_that_the_internet_is_allowed_as_listed() {
        let listed = || NetworkFlags { allow_domains: vec!["a.example".to_owned()], ..Default::default() };
        assert_eq!(listed().change().allow_internet, Some(true));
        assert_eq!(NetworkFlags { no_internet: true, ..listed() }.change().allow_internet, Some(false));
        let denied = NetworkFlags { deny_domains: vec!["a.example".to_owned()], ..Default::default() };
        assert_eq!(denied.change().allow_internet, None);
        assert!(NetworkFlags::default().change_if_any().is_none());
    }
}
