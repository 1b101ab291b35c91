//! The forms in which credentials occur, most specific first.

use std::sync::LazyLock;

use regex::Regex;

use crate::secrets::{Check, Rule};

/// A value as a shell, a header, or JSON within a shell has it.
const VALUE: &str = r#"(?:\\"[^"\\]*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s'"&;|()<>`\\])+"#;
/// As [`VALUE`], where a comma or a bracket ends it.
const ITEM: &str = r#"(?:\\"[^"\\]*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s'"&;|()<>`\\,\]}]+)"#;
const NAME: &str = r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*";

/// The rules, in the order in which they are applied.
pub(crate) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let compiled = patterns().into_iter();
    compiled
        .filter_map(|(pattern, check)| Some(Rule { pattern: Regex::new(&pattern).ok()?, check }))
        .collect()
});

/// Each rule's pattern, and what else has to be true of what it finds.
pub(crate) fn patterns() -> Vec<(String, Check)> {
    let of = |pattern: &str, check| {
        let pattern = pattern.replace("VALUE", VALUE).replace("ITEM", ITEM).replace("NAME", NAME);
        (pattern, check)
    };
    let mut all = vec![
        // Private keys, whole or cut off.
        of(
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<s>.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)",
            Check::Value,
        ),
        of(r"(?s)PuTTY-User-Key-File-\d:(?P<s>.*)", Check::Always),
        // user:password@ and token@ in addresses.
        of(r#"(?i)\b[a-z][a-z0-9+.-]*://(?P<s>[^/\s'"?#]+)@"#, Check::Value),
        of(r"(?i)https://hooks\.slack\.com/(?:services|workflows)/(?P<s>[A-Za-z0-9/_-]+)", Check::Always),
        of(r"(?i)https://[a-z.]*discord(?:app)?\.com/api/webhooks/(?P<s>[0-9]+/[\w-]+)", Check::Always),
    ];
    all.extend(TOKENS.iter().map(|token| of(&format!(r"\b(?P<s>{token})"), Check::Always)));
    all.extend([
        // Headers.
        of(
            r#"(?i)\b(?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?(?:(?:basic|bearer|token|digest|apikey|negotiate|bot|key)\s+)?(?P<s>[^\s'"\\,]+)"#,
            Check::Value,
        ),
        of(
            r#"(?i)\b(?:x-api-key|api-key|x-auth-token|x-auth-key|x-access-token|private-token|job-token|deploy-token|x-vault-token|x-amz-security-token|x-goog-api-key|x-figma-token|x-csrf-token|circle-token|dd-api-key|apikey)\\?["']?\s*:\s*\\?["']?(?P<s>[^\s'"\\,]+)"#,
            Check::Value,
        ),
        of(r#"(?i)\b(?:set-)?cookie\s*:\s*(?P<s>[^'"\r\n]+)"#, Check::Value),
        of(r"(?i)\b(?:bearer|basic)\s+(?P<s>[A-Za-z0-9+/=._~-]{8,})", Check::Random),
        // user:password of programs that take it so.
        of(
            r#"(?:^|[\s;|&(`])(?:curl|wget|http|https|xh|aria2c|ab|siege)(?:\s[^\n]*?)?\s(?:-[A-Za-z]*[uU]\s*|--(?:proxy-)?user[\s=]+|-a\s+|--auth[\s=]+)["']?(?P<k>[^\s:'"\[]*):(?P<s>(?:[^\s'"])+)"#,
            Check::NotNumbers,
        ),
        of(r"(?i)\bsqlplus\s[^\n]*?[\w$]+/(?P<s>[^\s@/]+)@", Check::Value),
        of(r"(?i)\bsmbclient\s[^\n]*?-U\s*[^\s%]+%(?P<s>VALUE)", Check::Value),
        // Flags of programs of which it is known that they take a password.
        of(r"\b(?:mysql\w*|mariadb[\w-]*)\s(?:[^\n|;]*?\s)?-p\s?(?P<s>VALUE)", Check::Value),
        of(r"\bsshpass\s+(?:-\w+\s+)*?-p\s*(?P<s>VALUE)", Check::Value),
        of(
            r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|oc|az)\s[^\n|;]*?login\s(?:[^\n|;]*?\s)?-p[\s=]*(?P<s>VALUE)",
            Check::Value,
        ),
        of(r"\bmongo\w*\s(?:[^\n|;]*?\s)?-p[\s=]*(?P<s>VALUE)", Check::Value),
        of(r"\bredis-cli\s(?:[^\n|;]*?\s)?-a\s+(?P<s>VALUE)", Check::Value),
        of(r"\b(?:7z|7za|7zr)\s(?:[^\n|;]*?\s)?-p(?P<s>VALUE)", Check::Value),
        of(r"\b(?:zip|unzip|sqlcmd|bcp)\s(?:[^\n|;]*?\s)?-P\s+(?P<s>VALUE)", Check::Value),
        of(r"\bldap(?:search|modify|add|delete|whoami)\s(?:[^\n|;]*?\s)?-w\s+(?P<s>VALUE)", Check::Value),
        of(r"\bssh-keygen\s(?:[^\n|;]*?\s)?-[NP]\s*(?P<s>VALUE)", Check::Value),
        of(r"\bopenssl\s(?:[^\n|;]*?\s)?(?:-k\s+|pass:)(?P<s>VALUE)", Check::Value),
        of(r"\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+(?P<s>VALUE)", Check::Value),
        of(r"\b(?:vault|op)\s+login\s+(?P<s>[^\s-][^\s=]*)$", Check::Random),
        of(r"\brabbitmqctl\s+(?:add_user|change_password)\s+\S+\s+(?P<s>VALUE)", Check::Value),
        // What is piped into something that asks for a password.
        of(
            r"\b(?:echo|printf)\s+(?:-\w+\s+|'%s(?:\\n)?'\s+|%s\s+)*(?P<s>VALUE)\s*\|\s*(?:sudo\s+-\w*S|\S+\s+(?:\S+\s+)?login\b|chpasswd|passwd\b|cryptsetup\b|[^\n]*--password-stdin|[^\n]*--with-token|[^\n]*--passphrase-fd)",
            Check::Value,
        ),
        of(r"\b(?:sudo\s+-\w*S|login|chpasswd|passwd)\b[^\n]*<<<\s*(?P<s>VALUE)", Check::Value),
        // SQL.
        of(r"(?i)\b(?:identified\s+by|password)\s+(?P<s>'[^']*')", Check::Value),
        // `config set NAME VALUE`.
        of(r"\b(?:(?:set|config|configure|add)\s+)+(?:--?[\w-]+\s+)*(?P<k>[\w.:/@-]+)\s+(?P<s>VALUE)", Check::Named),
        // --name value.
        of(
            r#"(?:^|\s)--?(?P<k>[A-Za-z][\w.-]*)\s+(?P<s>(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s'"&;|()<>`\\-])(?:VALUE)?)"#,
            Check::Named,
        ),
        // JSON, also in quotes, where its own quotes have backslashes.
        of(r#"\\?["'](?P<k>NAME)\\?["']\s*(?::|=>)\s*(?P<s>ITEM)"#, Check::Named),
        // NAME=value, in commands, files, addresses and connection strings.
        of(r"(?P<k>NAME)\s*:?=\s*(?P<s>VALUE)", Check::Named),
        // name: value, in YAML and in prose.
        of(r"(?P<k>[A-Za-z_][\w.-]*):\s+(?P<s>ITEM)", Check::NamedInText),
    ]);
    all
}

/// Tokens whose form says what they are.
const TOKENS: [&str; 44] = [
    // Source code and packages.
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{16,}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{16,}",
    r"ATBB[A-Za-z0-9]{16,}",
    r"ATATT3[A-Za-z0-9_=-]{20,}",
    r"npm_[A-Za-z0-9]{16,}",
    r"pypi-[A-Za-z0-9_-]{16,}",
    r"rubygems_[a-f0-9]{32,}",
    r"dckr_pat_[A-Za-z0-9_-]{20,}",
    r"cio[A-Za-z0-9]{32}\b",
    // Clouds.
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"do[opr]_v1_[a-f0-9]{32,}",
    r"hvs\.[A-Za-z0-9_-]{20,}",
    r"hvb\.[A-Za-z0-9_-]{20,}",
    r"[a-zA-Z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}",
    r"dapi[a-f0-9]{32}",
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{20,}",
    r"sbp_[a-f0-9]{40}",
    r"fo1_[A-Za-z0-9_-]{20,}",
    r"tskey-[a-z]+-[A-Za-z0-9-]{16,}",
    r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{30,}",
    // Models.
    r"sk-[A-Za-z0-9_-]{16,}",
    r"hf_[A-Za-z0-9]{24,}",
    r"gsk_[A-Za-z0-9]{24,}",
    r"r8_[A-Za-z0-9]{30,}",
    // Messages and money.
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xapp-\d-[A-Za-z0-9-]{10,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"SK[0-9a-f]{32}\b",
    r"\d{8,10}:AA[A-Za-z0-9_-]{30,}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",
    r"whsec_[A-Za-z0-9+/=]{20,}",
    r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"key-[a-f0-9]{32}\b",
    // Tools.
    r"lin_api_[A-Za-z0-9]{32,}",
    r"(?:ntn|secret)_[A-Za-z0-9]{40,}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    r"NRAK-[A-Z0-9]{27}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
];
