//! Why a policy is refused.

use agentiso_core::{Code, Explain};

use super::ClosedRange;

/// An entry of a policy that cannot be accepted. Nothing of the policy is applied.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}[{index}]: '{entry}' {reason}")]
pub struct PolicyError {
    /// The list the entry is in.
    pub field: &'static str,
    /// The entry's position, from 0.
    pub index: usize,
    /// The entry as it was given, shortened.
    pub entry: String,
    /// What is wrong with it.
    pub reason: Reason,
}

impl Explain for PolicyError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        Some(match &self.reason {
            Reason::IsAddress => "put addresses into allow_cidrs or deny_cidrs".to_owned(),
            Reason::IsUrl | Reason::HasPort => {
                "give the host name alone, without scheme, port or path".to_owned()
            }
            Reason::NotAscii => "write international names in their xn-- form".to_owned(),
            Reason::Wildcard => "use a wildcard only as the first label, such as *.example.com".to_owned(),
            Reason::Everything => "set allow_internet instead".to_owned(),
            Reason::HostBits(meant) => format!("write {meant} for the range"),
            Reason::NeverReachable(_) => "use a port forward to reach a service of the host".to_owned(),
            Reason::NeedsProxy => "set egress to proxy, or leave http_rules out".to_owned(),
            _ => "correct the entry; the policy was not changed".to_owned(),
        })
    }
}

/// What is wrong with an entry.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The list has too many entries.
    #[error("is one entry too many: a list holds at most {0}")]
    TooMany(usize),
    /// An empty string.
    #[error("is empty")]
    Empty,
    /// Longer than a domain name may be.
    #[error("is longer than the 253 characters of a domain name")]
    TooLong,
    /// A label is empty or longer than 63 characters.
    #[error("has a label that is empty or longer than 63 characters")]
    Label,
    /// A character that no host name has.
    #[error("contains {0:?}, which is not allowed in a domain name")]
    Character(char),
    /// A character outside ASCII.
    #[error("contains characters outside ASCII")]
    NotAscii,
    /// A wildcard anywhere but as the first label.
    #[error("has a wildcard that is not its first label")]
    Wildcard,
    /// A wildcard for every name.
    #[error("matches every name")]
    Everything,
    /// An IP address where a name is expected.
    #[error("is an address, not a domain name")]
    IsAddress,
    /// A URL where a name is expected.
    #[error("is a URL, not a domain name")]
    IsUrl,
    /// A name with a port.
    #[error("has a port")]
    HasPort,
    /// Neither an address nor a range.
    #[error("is not an IPv4 address or range")]
    NotACidr,
    /// IPv6 is not routed at all.
    #[error("is an IPv6 range, and workspaces have no IPv6")]
    Ipv6,
    /// Bits are set behind the prefix.
    #[error("is an address within {0}, not a range")]
    HostBits(String),
    /// A range that can never be opened.
    #[error("is {0}, which cannot be opened")]
    NeverReachable(ClosedRange),
    /// Port 0.
    #[error("is not a port")]
    NotAPort,
    /// A group name that is empty, too long or has odd characters.
    #[error("is not a group name: use 1 to 63 letters, digits, '-', '_' or '.'")]
    NotAGroup,
    /// A method that is empty, too long, not in capitals, or a tunnel.
    #[error("has an entry that is not a method: use capitals, such as GET, and not CONNECT")]
    NotAMethod,
    /// A path that no request can have.
    #[error("has a path that no request can have: write it as /a/b, with no dot segments or percent signs")]
    NotAPath,
    /// A rule that only the proxy can apply.
    #[error("needs egress: proxy")]
    NeedsProxy,
}
