//! Checks of URLs and refs before they are passed to git.

use agentiso_core::{Code, Failure};

/// An address git may be given: of a known kind, and nothing a shell or git would take for something else.
pub(super) fn checked_url(url: &str) -> Result<(), Failure> {
    let kinds = ["https://", "http://", "git://", "ssh://"];
    let scp_like = || {
        let before = url.split('/').next().unwrap_or_default();
        !url.contains("://") && before.contains('@') && before.contains(':')
    };
    let hostile = |c: char| c.is_control() || c.is_whitespace() || ";|&$`'\"\\<>".contains(c);
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let known = kinds.iter().any(|kind| url.starts_with(kind)) || scp_like();
    if known && url.len() <= 2048 && !url.contains(hostile) && !host.starts_with('-') && !host.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::InvalidArgument, "url is not the address of a git repository").with_remedy(
        "https, http, git or ssh, or user@host:path, without blanks and characters of the shell",
    ))
}

/// A name of a branch, tag or remote, by git's own rules as far as they protect anybody.
pub(super) fn checked_ref(name: &str) -> Result<&str, Failure> {
    let hostile = |c: char| c.is_control() || " ~^:?*[\\;|&$`'\"<>(){}!#".contains(c);
    let good = !name.is_empty()
        && name.len() <= 255
        // A plus would force a push.
        && !name.starts_with(['-', '/', '.', '+'])
        && !name.ends_with(['/', '.'])
        && !name.ends_with(".lock")
        && !name.contains("..")
        && !name.contains("//")
        && !name.contains("@{")
        && !name.contains(hostile);
    if good {
        return Ok(name);
    }
    Err(Failure::new(
        Code::InvalidArgument,
        format!("{:?} is not a name git takes", crate::output::cut(name, 100)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_addresses_are_refused_before_git_sees_them() {
        for good in [
            "https://example.com/a/b.git",
            "http://127.0.0.1:8080/r.git",
            "ssh://git@example.com/a.git",
            "git@example.com:a/b.git",
            "git://localhost/r",
        ] {
            checked_url(good).unwrap();
        }
        for bad in [
            "",
            "/etc/passwd",
            "file:///etc/passwd",
            "ext::sh -c id",
            "https://a b",
            "https://x;id",
            "--upload-pack=x",
            "https://",
            "-oProxyCommand=x@y:z",
            "ssh://-oProxyCommand=id/x",
            "https://x$(id)",
            "https://x\nid",
            "a:b",
        ] {
            assert!(checked_url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        for good in ["main", "feature/x-1", "v1.2.3", "release_2"] {
            checked_ref(good).unwrap();
        }
        for bad in [
            "", "-x", "--force", "a..b", "a b", "a~1", "x.lock", "a;b", "/a", "a/", "a@{1}", "$(id)", "a\nb",
            ".", "+main",
        ] {
            assert!(checked_ref(bad).is_err(), "{bad:?}");
        }
    }
}
