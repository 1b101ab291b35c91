//! Credentials in text: found by their form, by the name they are given, or by where they stand in a command.
//!
//! What to catch follows the rule sets of gitleaks and detect-secrets; the rules themselves are in `secret_rules.rs`.
//! A credential that stays is worse than a word too many that goes, but commands have to stay readable: variables that
//! are only referred to (`$TOKEN`), paths of files with secrets, port numbers and the like are left.

use regex::{Captures, Regex};

use crate::secret_rules::RULES;

/// What stands where a credential stood.
pub(crate) const MARK: &str = "[redacted]";
/// How a text begins that was replaced; what ends a value may cut the rest off.
const MARKED: &str = "[redacted";
/// How often a rule is applied: some find one credential of a command at a time.
const PASSES: usize = 8;

/// A form in which credentials occur. The group `s` is the credential, the group `k` its name if it has one.
pub(crate) struct Rule {
    pub pattern: Regex,
    pub check: Check,
}

/// What else has to be true of a match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Check {
    /// Nothing.
    Always,
    /// It is not a reference, a placeholder or empty.
    Value,
    /// The same, and its name says that it is secret.
    Named,
    /// The same, and it is a password by its name, or looks like a secret by itself.
    NamedInText,
    /// It looks like a secret by itself.
    Random,
    /// It is not a pair of numbers as in `--user 1000:1000`.
    NotNumbers,
}

/// A text without credentials.
pub(crate) fn without_credentials(text: &str) -> String {
    let mut text = text.to_owned();
    for rule in RULES.iter() {
        for _ in 0..PASSES {
            match rule.apply(&text) {
                Some(changed) => text = changed,
                None => break,
            }
        }
    }
    text
}

/// A text without these values.
pub(crate) fn without_values<'a>(text: &str, values: impl IntoIterator<Item = &'a str>) -> String {
    values.into_iter().filter(|value| !value.is_empty()).fold(text.to_owned(), |text, value| {
        if text.contains(value) { text.replace(value, MARK) } else { text }
    })
}

/// Whether the value of a variable has to be kept out of what is remembered. `production` and `/usr/lib` do not.
pub(crate) fn is_secret_variable(name: &str, value: &str) -> bool {
    (is_secret_name(name) && value.len() >= 4) || (value.len() >= 8 && looks_random(value))
}

impl Rule {
    /// The text with the credentials replaced, if the rule found any.
    fn apply(&self, text: &str) -> Option<String> {
        let mut changed = String::new();
        let (mut end, mut next) = (0, 0);
        while let Some(found) = self.pattern.captures_at(text, next) {
            let Some(secret) = found.name("s") else { break };
            if secret.as_str().contains(MARKED) || !self.is_met(&found, secret.as_str()) {
                // What looked like the value of one name may be another name: `--set password=x`.
                next = text.ceil_char_boundary(secret.start().max(next + 1));
            } else {
                changed.push_str(&text[end..secret.start()]);
                changed.push_str(MARK);
                end = secret.end();
                next = end.max(next + 1);
            }
            if next > text.len() {
                break;
            }
        }
        (end > 0).then(|| changed + &text[end..])
    }

    fn is_met(&self, found: &Captures<'_>, secret: &str) -> bool {
        let name = found.name("k").map_or("", |name| name.as_str());
        let value = secret.trim_matches(['"', '\'', '\\']);
        match self.check {
            Check::Always => true,
            Check::Value => !is_reference(value),
            Check::Named => is_secret_name(name) && !is_reference(value),
            Check::NamedInText => {
                is_secret_name(name)
                    && !is_reference(value)
                    && (is_password_name(name) || looks_random(value))
            }
            Check::Random => looks_random(value),
            Check::NotNumbers => {
                let numbers = [name, value].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
                !is_reference(value) && !numbers
            }
        }
    }
}

/// Something that stands for a secret and is none.
fn is_reference(value: &str) -> bool {
    let named = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let variable = value.strip_prefix('$').is_some_and(|rest| {
        rest.is_empty()
            || named(rest)
            || rest.starts_with('(')
            || rest.strip_prefix('{').is_some_and(|rest| {
                // `${A:-secret}` is more than a reference.
                rest.strip_suffix('}').is_some_and(named)
            })
    });
    let placeholder = (value.starts_with('<') && value.ends_with('>'))
        || (value.starts_with("{{") && value.ends_with("}}"))
        || value.bytes().all(|b| b == b'*')
        || value.bytes().all(|b| b == b'x')
        || value.bytes().all(|b| b == b'.');
    let word = ["true", "false", "null", "none", "yes", "no"].contains(&value.to_ascii_lowercase().as_str());
    value.is_empty() || variable || placeholder || word
}

/// Words that make a name a secret's wherever they stand in it.
const SECRET_WORDS: [&str; 19] = [
    "password",
    "passwd",
    "passwort",
    "passphrase",
    "passcode",
    "pass",
    "pwd",
    "pw",
    "secret",
    "secrets",
    "token",
    "apikey",
    "authtoken",
    "accesskey",
    "secretkey",
    "privatekey",
    "credential",
    "credentials",
    "creds",
];
/// Endings of words that do.
const SECRET_ENDINGS: [&str; 6] = ["password", "passwd", "passphrase", "secret", "token", "pass"];
/// Words that do before `key`.
const KEYS: [&str; 14] = [
    "api",
    "access",
    "private",
    "secret",
    "signing",
    "encryption",
    "account",
    "master",
    "ssh",
    "deploy",
    "auth",
    "service",
    "license",
    "admin",
];
/// Last words of names that are about a secret and are none.
const ABOUT: [&str; 36] = [
    "file", "files", "path", "dir", "url", "uri", "endpoint", "name", "id", "type", "length", "len", "size",
    "count", "max", "min", "ttl", "expiry", "expires", "policy", "field", "prompt", "hint", "env", "var",
    "limit", "budget", "enabled", "required", "store", "manager", "provider", "helper", "stdin", "fd",
    "mount",
];
/// Words that end like a secret's and are none.
const HARMLESS: [&str; 6] = ["compass", "bypass", "trespass", "surpass", "underpass", "overpass"];

/// Whether what has this name is a secret: `DB_PASS`, `apiKey`, `--client-secret`, but not `max_tokens` or `token_file`.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    if words.last().is_some_and(|last| ABOUT.contains(&last.as_str())) {
        return false;
    }
    let secret = |word: &String| {
        !HARMLESS.contains(&word.as_str())
            && (SECRET_WORDS.contains(&word.as_str())
                || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending)))
    };
    let key = |pair: &[String]| pair[1] == "key" && KEYS.contains(&pair[0].as_str());
    words.iter().any(secret)
        || words.windows(2).any(key)
        || name.trim_start_matches(['/', ':', '.']).ends_with("_auth")
        || (words.len() > 1
            && words.last().is_some_and(|last| last == "key")
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'))
}

fn is_password_name(name: &str) -> bool {
    words(name).iter().any(|word| {
        word.starts_with("pass") || word.ends_with("password") || ["pwd", "pw"].contains(&word.as_str())
    })
}

/// The words of a name, in lower case: at `_`, `-` and the like, and where small letters are followed by capitals.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in name.chars() {
        let separates = !letter.is_alphanumeric();
        if (separates || (small && letter.is_uppercase()))
            && words.last().is_some_and(|last| !last.is_empty())
        {
            words.push(String::new());
        }
        if !separates && let Some(last) = words.last_mut() {
            last.extend(letter.to_lowercase());
        }
        small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value looks made up by a machine: not a word, a number, a path, a version or an address.
fn looks_random(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_.~-!@#$%^*".contains(&b));
    let path = value.starts_with(['/', '.', '~']) || value.contains("://");
    let upper = value.bytes().any(|b| b.is_ascii_uppercase());
    let lower = value.bytes().any(|b| b.is_ascii_lowercase());
    let mixed = digits >= 2 && letters >= 2 || (upper && lower && digits > 0);
    value.len() >= 8 && plain && !path && mixed
}
