//! The mode in which an image is built: as root, or in a user namespace.
//!
//! A user namespace needs a range of subordinate user and group ids for the owners of the image's files, and the programs
//! that map them.

use std::fs;

use super::DebianError;
use crate::tools::Tool;

/// The number of ids that a Debian image needs.
const IDS: u64 = 65536;
/// The first id that is suggested for a range.
const FIRST_ID: u64 = 100_000;

/// The builder's mode for the current user, as its option names it.
///
/// # Errors
///
/// If something is missing; the error says what to run.
pub fn mode() -> Result<&'static str, DebianError> {
    if rustix::process::geteuid().is_root() {
        return Ok("root");
    }
    let uid = rustix::process::getuid().as_raw();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let user = name_of(uid, &read("/etc/passwd")).or_else(|| std::env::var("USER").ok());
    let user = user.unwrap_or_else(|| uid.to_string());
    let situation = Situation {
        subuid: read("/etc/subuid"),
        subgid: read("/etc/subgid"),
        has_helpers: ["newuidmap", "newgidmap"].iter().all(|tool| Tool::find(tool, "uidmap").is_ok()),
        uid,
        user,
    };
    situation.missing().map_or(Ok("unshare"), Err)
}

struct Situation {
    subuid: String,
    subgid: String,
    has_helpers: bool,
    uid: u32,
    user: String,
}

impl Situation {
    fn missing(&self) -> Option<DebianError> {
        let (mut missing, mut commands) = (Vec::new(), Vec::new());
        if !self.has_helpers {
            missing.push("the program newuidmap is not installed".to_owned());
            commands.push("sudo apt-get install uidmap".to_owned());
        }
        let files = [("subuid", &self.subuid), ("subgid", &self.subgid)];
        let wanting: Vec<_> = files.into_iter().filter(|(_, text)| !self.has_ids(text)).collect();
        if !wanting.is_empty() {
            let names: Vec<String> = wanting.iter().map(|(name, _)| format!("/etc/{name}")).collect();
            missing.push(format!("{} has no {IDS} ids in {}", self.user, names.join(" and ")));
            let ranges = wanting.iter().map(|(name, text)| {
                let first = first_free(text);
                format!("--add-{name}s {first}-{}", first + IDS - 1)
            });
            let ranges: Vec<String> = ranges.collect();
            commands.push(format!("sudo usermod {} {}", ranges.join(" "), self.user));
        }
        (!missing.is_empty()).then_some(DebianError::NoNamespace { missing, commands })
    }

    fn has_ids(&self, text: &str) -> bool {
        let uid = self.uid.to_string();
        ranges(text).any(|(who, _, count)| (who == self.user || who == uid) && count >= IDS)
    }
}

/// Lines of the form `user:first:count`.
fn ranges(text: &str) -> impl Iterator<Item = (&str, u64, u64)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let who = fields.next()?;
        Some((who, fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?))
    })
}

fn first_free(text: &str) -> u64 {
    ranges(text).map(|(_, first, count)| first.saturating_add(count)).max().unwrap_or(0).max(FIRST_ID)
}

fn name_of(uid: u32, passwd: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::{Code, Explain};

    fn situation(subuid: &str, subgid: &str, has_helpers: bool) -> Situation {
        let (subuid, subgid) = (subuid.to_owned(), subgid.to_owned());
        Situation { subuid, subgid, has_helpers, uid: 1000, user: "ann".to_owned() }
    }

    #[test]
    fn ids_may_be_given_to_a_name_or_a_number() {
        for ids in ["ann:100000:65536\n", "bob:1:2\n1000:200000:65536\n"] {
            assert!(situation(ids, ids, true).missing().is_none(), "{ids}");
        }
        for ids in ["", "bob:100000:65536\n", "ann:100000:1000\n", "ann:nonsense:65536\n", "anna:1:65536\n"] {
            assert!(situation(ids, "ann:100000:65536\n", true).missing().is_some(), "{ids}");
        }
    }

    #[test]
    fn what_is_missing_comes_with_the_commands_that_bring_it() {
        let error = situation("bob:100000:65536\n", "", false).missing().unwrap();
        assert_eq!(error.code(), Code::ToolMissing);
        let said = error.to_string();
        assert!(said.contains("newuidmap") && said.contains("/etc/subuid and /etc/subgid"), "{said}");
        assert_eq!(
            error.remedy().unwrap(),
            "run: sudo apt-get install uidmap && \
             sudo usermod --add-subuids 165536-231071 --add-subgids 100000-165535 ann"
        );
        let only_groups = situation("ann:100000:65536\n", "", true).missing().unwrap();
        assert_eq!(only_groups.remedy().unwrap(), "run: sudo usermod --add-subgids 100000-165535 ann");
    }

    #[test]
    fn a_user_is_found_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_of(1000, passwd).as_deref(), Some("ann"));
        assert_eq!(name_of(1001, passwd), None);
    }
}
