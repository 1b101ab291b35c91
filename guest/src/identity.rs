//! Resolves the user of a command from the guest's `/etc/passwd` and `/etc/group`, without any name service.

use agentiso_proto::User;

use crate::{
    error::{Outcome, not_found},
    paths::read_small,
};

/// Limit on the size of these files; the rest is ignored.
const MAX_FILE: usize = 4 * 1024 * 1024;
/// The kernel's NGROUPS_MAX.
const MAX_GROUPS: usize = 65_536;

/// A user, as needed for a command's process and environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary group ids.
    pub(crate) groups: Vec<u32>,
    pub(crate) name: Vec<u8>,
    pub(crate) home: Vec<u8>,
    pub(crate) shell: Vec<u8>,
}

/// Resolves the user of a command. Defaults to the agent's own user.
pub(crate) fn find(user: Option<&User>) -> Outcome<Identity> {
    let passwd = read_small(b"/etc/passwd", MAX_FILE).unwrap_or_default();
    let group = read_small(b"/etc/group", MAX_FILE).unwrap_or_default();
    match user {
        None => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            Ok(numbered(uid, gid, &passwd, &group))
        }
        Some(User::Id { uid, gid }) => Ok(numbered(*uid, *gid, &passwd, &group)),
        Some(User::Name(name)) => accounts(&passwd)
            .find(|account| account.name == name.as_bytes())
            .map(|account| identity(&account, account.gid, &group))
            .ok_or_else(|| not_found(format!("there is no user {name} in /etc/passwd"))),
    }
}

fn numbered(uid: u32, gid: u32, passwd: &[u8], group: &[u8]) -> Identity {
    if let Some(account) = accounts(passwd).find(|account| account.uid == uid) {
        return identity(&account, gid, group);
    }
    let home: &[u8] = if uid == 0 { b"/root" } else { b"/" };
    let name = if uid == 0 { b"root".to_vec() } else { uid.to_string().into_bytes() };
    Identity { uid, gid, groups: vec![gid], name, home: home.to_vec(), shell: b"/bin/sh".to_vec() }
}

fn identity(account: &Account<'_>, gid: u32, group: &[u8]) -> Identity {
    let mut groups = vec![gid];
    for other in memberships(account.name, group) {
        if groups.len() < MAX_GROUPS && !groups.contains(&other) {
            groups.push(other);
        }
    }
    let or = |value: &[u8], default: &[u8]| if value.is_empty() { default } else { value }.to_vec();
    Identity {
        uid: account.uid,
        gid,
        groups,
        name: account.name.to_vec(),
        home: or(account.home, b"/"),
        shell: or(account.shell, b"/bin/sh"),
    }
}

struct Account<'a> {
    name: &'a [u8],
    uid: u32,
    gid: u32,
    home: &'a [u8],
    shell: &'a [u8],
}

/// Parses the well-formed lines and skips the others.
fn accounts(passwd: &[u8]) -> impl Iterator<Item = Account<'_>> {
    lines(passwd).filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
        let [name, _, uid, gid, _, home, shell] = fields.as_slice() else { return None };
        let (uid, gid) = (number(uid)?, number(gid)?);
        (!name.is_empty()).then_some(Account { name, uid, gid, home, shell })
    })
}

fn memberships<'a>(user: &'a [u8], group: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
    lines(group).filter_map(move |line| {
        let mut fields = line.split(|&byte| byte == b':');
        let (_, _, gid, members) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        members.split(|&byte| byte == b',').any(|member| member == user).then(|| number(gid))?
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Skip lines with a NUL byte: it would cut short the C strings made from them.
    text.split(|&byte| byte == b'\n').filter(|line| !line.contains(&0))
}

/// Rejects 2^32-1, which means "unchanged" to the kernel.
fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|&id| id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/bash\n\
        # a comment\n\
        broken:x:1\n\
        huge:x:4294967295:1::/:/bin/sh\n\
        negative:x:-1:1::/:/bin/sh\n\
        ada:x:1000:1000:Ada,,,:/home/ada:\n\
        bare:x:1001:1001::::\n\
        empty:x:1002:1002:::\n";
    const GROUP: &[u8] = b"root:x:0:\nsudo:x:27:ada,bob\nada:x:1000:\ndocker:x:999:bob,ada\nshort:x:5\nbad:x:zz:ada\nagain:x:27:ada\n";

    fn named(name: &str) -> Option<Identity> {
        accounts(PASSWD)
            .find(|account| account.name == name.as_bytes())
            .map(|account| identity(&account, account.gid, GROUP))
    }

    #[test]
    fn an_account_has_its_primary_group_first_and_each_supplementary_group_once() {
        let ada = named("ada").unwrap();
        assert_eq!((ada.uid, ada.gid), (1000, 1000));
        assert_eq!(ada.groups, [1000, 27, 999]);
        assert_eq!(ada.home, b"/home/ada");
    }

    #[test]
    fn empty_home_and_shell_get_defaults() {
        let empty = named("empty").unwrap();
        assert_eq!((empty.home.as_slice(), empty.shell.as_slice()), (&b"/"[..], &b"/bin/sh"[..]));
    }

    #[test]
    fn malformed_lines_are_skipped() {
        for name in ["broken", "huge", "negative", "bare", "# a comment", ""] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    #[test]
    fn an_unknown_uid_is_still_a_user() {
        let somebody = numbered(4242, 17, PASSWD, GROUP);
        assert_eq!((somebody.uid, somebody.gid), (4242, 17));
        assert_eq!(somebody.groups, [17]);
        assert_eq!(somebody.name, b"4242");
    }

    #[test]
    fn a_known_uid_keeps_the_requested_group() {
        let ada = numbered(1000, 27, PASSWD, GROUP);
        assert_eq!((ada.name.as_slice(), ada.gid), (&b"ada"[..], 27));
        assert_eq!(ada.groups, [27, 999]);
    }

    proptest! {
        #[test]
        fn no_file_content_makes_parsing_fail(passwd in any::<Vec<u8>>(), group in any::<Vec<u8>>()) {
            for account in accounts(&passwd) {
                prop_assert!(identity(&account, account.gid, &group).groups.len() <= MAX_GROUPS);
            }
        }
    }
}
