//! Rules on requests: which methods and paths of a host may be used.
//!
//! The first rule whose host, method and path match decides. If none matches, the request passes, unless the host has an
//! `allow` rule: then only what the rules allow passes.

use agentiso_core::{HttpAction, HttpRule};

use super::path::{Path, PathPattern};
use super::{DomainPattern, Policy, Reason, Rule, Verdict};

const MAX_METHODS: usize = 32;
const MAX_METHOD: usize = 32;
const MAX_PATHS: usize = 256;

/// A checked rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RequestRule {
    host: DomainPattern,
    methods: Vec<String>,
    paths: Vec<PathPattern>,
    action: HttpAction,
}

impl RequestRule {
    pub(super) fn check(rule: &HttpRule) -> Result<Self, Reason> {
        if rule.methods.len() > MAX_METHODS {
            return Err(Reason::TooMany(MAX_METHODS));
        }
        if rule.paths.len() > MAX_PATHS {
            return Err(Reason::TooMany(MAX_PATHS));
        }
        Ok(Self {
            host: DomainPattern::parse(&rule.host)?,
            methods: rule.methods.iter().map(|method| check_method(method)).collect::<Result<_, _>>()?,
            paths: rule.paths.iter().map(|path| PathPattern::parse(path)).collect::<Result<_, _>>()?,
            action: rule.action,
        })
    }

    fn covers_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|known| known == method)
    }

    fn covers_path(&self, path: &Path) -> bool {
        let covers = |pattern: &PathPattern| match self.action {
            HttpAction::Allow => pattern.covers_surely(path),
            HttpAction::Deny => pattern.covers_possibly(path),
        };
        self.paths.is_empty() || self.paths.iter().any(covers)
    }
}

impl From<RequestRule> for HttpRule {
    fn from(rule: RequestRule) -> Self {
        Self {
            host: rule.host.to_string(),
            methods: rule.methods,
            paths: rule.paths.iter().map(|path| path.as_str().to_owned()).collect(),
            action: rule.action,
        }
    }
}

impl Policy {
    /// Whether requests to a host (a name in normal form) have to be looked at.
    pub fn has_request_rules(&self, host: &str) -> bool {
        self.http_rules.iter().any(|rule| rule.host.matches(host))
    }

    /// Decides about one request to a host that may be reached. `path` is without its query.
    pub fn request_verdict(&self, host: &str, method: &str, path: &str) -> Verdict {
        let mut rules =
            self.http_rules.iter().enumerate().filter(|(_, rule)| rule.host.matches(host)).peekable();
        if rules.peek().is_none() {
            return Verdict::allow(Rule::NoRequestRules);
        }
        let Some(path) = Path::parse(path) else {
            return Verdict::refuse(Rule::UnclearPath);
        };
        let mut narrowed = false;
        for (index, rule) in rules {
            let is_allowed = rule.action == HttpAction::Allow;
            if rule.covers_method(method) && rule.covers_path(&path) {
                let rule = Rule::Request(format!("http_rules[{index}]: {}", HttpRule::from(rule.clone())));
                return if is_allowed { Verdict::allow(rule) } else { Verdict::refuse(rule) };
            }
            narrowed |= is_allowed;
        }
        if narrowed { Verdict::refuse(Rule::RequestNotListed) } else { Verdict::allow(Rule::NoRequestRules) }
    }
}

fn check_method(method: &str) -> Result<String, Reason> {
    let allowed = |byte: u8| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_';
    // CONNECT would open a tunnel whose contents no rule sees.
    if method.is_empty() || method.len() > MAX_METHOD || !method.bytes().all(allowed) || method == "CONNECT" {
        return Err(Reason::NotAMethod);
    }
    Ok(method.to_owned())
}

#[cfg(test)]
mod tests {
    use agentiso_core::{Egress, NetworkRules};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn rule(action: HttpAction, host: &str, methods: &[&str], paths: &[&str]) -> HttpRule {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        HttpRule { host: host.to_owned(), methods: texts(methods), paths: texts(paths), action }
    }

    fn policy(rules: Vec<HttpRule>) -> Policy {
        let spec = NetworkRules {
            allow_internet: true,
            egress: Egress::Proxy,
            http_rules: rules,
            ..NetworkRules::default()
        };
        Policy::check(&spec).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use HttpAction::{Allow, Deny};
        let policy = policy(vec![
            rule(Deny, "api.example.com", &[], &["/v1/admin"]),
            rule(Allow, "api.example.com", &["GET", "HEAD"], &["/v1"]),
            rule(Allow, "*.example.com", &["POST"], &["/v1/chat"]),
            rule(Deny, "other.test", &["DELETE"], &[]),
        ]);
        for (host, method, path, allowed, text) in [
            ("api.example.com", "GET", "/v1/x", true, "http_rules[1]: allow GET,HEAD api.example.com /v1"),
            ("api.example.com", "GET", "/v1/admin/x", false, "http_rules[0]: deny api.example.com /v1/admin"),
            ("api.example.com", "GET", "/v1%2fadmin", false, "http_rules[0]: deny api.example.com /v1/admin"),
            ("api.example.com", "POST", "/v1/chat", true, "http_rules[2]: allow POST *.example.com /v1/chat"),
            ("api.example.com", "POST", "/v1/x", false, "http_rules: no rule allows this request"),
            (
                "api.example.com",
                "GET",
                "/v1/../x",
                false,
                "http_rules: the path can be read in different ways",
            ),
            ("www.example.com", "GET", "/", false, "http_rules: no rule allows this request"),
            ("other.test", "DELETE", "/x", false, "http_rules[3]: deny DELETE other.test"),
            ("other.test", "GET", "/x", true, "http_rules: none for this host"),
            ("third.test", "GET", "/../x", true, "http_rules: none for this host"),
        ] {
            let verdict = policy.request_verdict(host, method, path);
            assert_eq!(
                (verdict.allowed, verdict.rule.to_string().as_str()),
                (allowed, text),
                "{host} {method} {path}"
            );
        }
        assert!(policy.has_request_rules("www.example.com") && !policy.has_request_rules("third.test"));
    }

    #[test]
    fn malformed_rules_are_refused_with_the_reason() {
        let refused = |rule: HttpRule| {
            let spec =
                NetworkRules { egress: Egress::Proxy, http_rules: vec![rule], ..NetworkRules::default() };
            Policy::check(&spec).unwrap_err().to_string()
        };
        let allow = HttpAction::Allow;
        assert!(
            refused(rule(allow, "https://a.example", &[], &[])).starts_with("http_rules[0]: 'allow https")
        );
        for method in ["get", "", "G T", "CONNECT"] {
            assert!(
                refused(rule(allow, "a.example", &[method], &[])).contains("is not a method"),
                "{method}"
            );
        }
        assert!(refused(rule(allow, "a.example", &[], &["v1"])).contains("path"));
        let direct =
            NetworkRules { http_rules: vec![rule(allow, "a.example", &[], &[])], ..NetworkRules::default() };
        let error = Policy::check(&direct).unwrap_err();
        assert!(error.to_string().contains("needs egress: proxy"), "{error}");
    }

    fn any_rule() -> impl Strategy<Value = HttpRule> {
        let action = select(vec![HttpAction::Allow, HttpAction::Deny]);
        let host = select(vec!["a.example", "*.example"]);
        let methods = vec(select(vec!["GET", "POST"]), 0..2);
        let paths = vec(select(vec!["/", "/v1", "/v1/*/x", "/**"]), 0..2);
        (action, host, methods, paths)
            .prop_map(|(action, host, methods, paths)| rule(action, host, &methods, &paths))
    }

    fn any_path() -> impl Strategy<Value = String> {
        "(/(v1|x|%2e%2e|\\.\\.|a%2fb|)){1,4}"
    }

    proptest! {
        #[test]
        fn a_deny_rule_in_front_never_opens_anything(rules in vec(any_rule(), 0..4), deny in any_rule(), path in any_path()) {
            let before = policy(rules.clone());
            let deny = HttpRule { action: HttpAction::Deny, ..deny };
            let after = policy([vec![deny], rules].concat());
            for method in ["GET", "POST", "PUT"] {
                let verdict = after.request_verdict("a.example", method, &path);
                prop_assert!(!verdict.allowed || before.request_verdict("a.example", method, &path).allowed);
            }
        }

        #[test]
        fn rules_survive_being_written_and_read(rules in vec(any_rule(), 0..4)) {
            let policy = policy(rules);
            let text = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        }
    }
}
