//! What a guest is told when something is refused.

use agentiso_policy::egress::Rule;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of an answer: the server's, or one of ours.
pub(super) type AnswerBody = Either<Incoming, Full<Bytes>>;

/// A request that is not sent on.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Refusal {
    /// A request that a rule refuses.
    pub(super) fn by_rule(host: Option<&str>, rule: &Rule) -> Self {
        let status = match rule {
            Rule::OtherName(_) => StatusCode::MISDIRECTED_REQUEST,
            _ => StatusCode::FORBIDDEN,
        };
        let host = host.unwrap_or("(not named)");
        let text = format!(
            "agentiso refused this request.\nhost: {host}\nrule: {rule}\nto change this: {}\n",
            remedy(host, rule)
        );
        Self { status, text }
    }

    /// A request that is malformed.
    pub(super) fn malformed(what: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: format!("agentiso refused this request: {what}.\n") }
    }

    /// A server that cannot be used.
    pub(super) fn upstream(host: &str, what: &str) -> Self {
        let text = format!("agentiso could not pass this request on to {host}: {what}.\n");
        Self { status: StatusCode::BAD_GATEWAY, text }
    }

    pub(super) fn into_response(self) -> Response<AnswerBody> {
        let mut response = Response::new(Either::Right(Full::new(Bytes::from(self.text))));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert("x-agentiso-refused", HeaderValue::from_static("1"));
        response
    }
}

/// What to change so that it is allowed.
fn remedy(host: &str, rule: &Rule) -> String {
    match rule {
        Rule::InternetOff => "set allow_internet with network_policy".to_owned(),
        Rule::NotListed => format!("add {host} to allow_domains with network_policy"),
        Rule::DenyDomain(pattern) => format!("remove {pattern} from deny_domains with network_policy"),
        Rule::DenyCidr(range) => format!("remove {range} from deny_cidrs with network_policy"),
        Rule::OtherName(name) => format!("connect to an address that {name} resolves to, by its name"),
        Rule::NoName => {
            "use the host's name, or add its address to allow_cidrs with network_policy".to_owned()
        }
        Rule::NotHttp(_) => "add the address to allow_cidrs with network_policy".to_owned(),
        Rule::Request(_) | Rule::RequestNotListed => "change http_rules with network_policy".to_owned(),
        Rule::UnclearPath => "send the path without dot segments, empty segments or backslashes".to_owned(),
        Rule::Placeholder(name) => format!(
            "send the placeholder of {name} only in a header, over https, to a host that the secret is bound to; \
             `agentiso secret set {name} --host HOST` binds it"
        ),
        _ => "change the rules with network_policy".to_owned(),
    }
}

/// A fatal alert, sent instead of a server hello.
pub(super) fn tls_alert(rule: &Rule) -> Vec<u8> {
    const UNRECOGNIZED_NAME: u8 = 112;
    const ACCESS_DENIED: u8 = 49;
    let description = match rule {
        Rule::OtherName(_) | Rule::NoName => UNRECOGNIZED_NAME,
        _ => ACCESS_DENIED,
    };
    vec![21, 3, 3, 0, 2, 2, description]
}
