//! The users and groups of a user namespace.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::set_thread_groups;

use crate::spec::ShownUser;

/// The maps of a user namespace.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Maps {
    users: String,
    groups: String,
    /// Whether the kernel requires that `setgroups` is denied.
    deny_setgroups: bool,
}

impl Maps {
    /// The maps of a sandbox that this process starts. Root keeps all users that it has, so that owners of files look right;
    /// others have themselves alone.
    pub fn plan(shown: ShownUser) -> io::Result<Self> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        if user.is_root() {
            // Without the supplementary groups there is nothing more to gain by them.
            let may_set_groups = set_thread_groups(&[]).is_ok();
            let of = |name: &str| fs::read_to_string(Path::new("/proc/self").join(name));
            let (users, groups) = (same(&of("uid_map")?), same(&of("gid_map")?));
            return Ok(Self { users, groups, deny_setgroups: !may_set_groups });
        }
        let (user, group) = (user.as_raw(), group.as_raw());
        let one = |outside: u32| {
            let inside = if shown == ShownUser::Root { 0 } else { outside };
            format!("{inside} {outside} 1\n")
        };
        Ok(Self { users: one(user), groups: one(group), deny_setgroups: true })
    }

    /// Writes the maps of a process in a new user namespace.
    pub fn write(&self, pid: Pid) -> Result<(), Errno> {
        let dir = format!("/proc/{}", pid.as_raw_nonzero());
        let write = |name: &str, text: &str| {
            fs::write(Path::new(&dir).join(name), text)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        if self.deny_setgroups {
            write("setgroups", "deny")?;
        }
        write("gid_map", &self.groups)?;
        write("uid_map", &self.users)
    }
}

/// A map in which every number of this user namespace means itself.
fn same(map: &str) -> String {
    let line = |line: &str| {
        let mut numbers = line.split_whitespace();
        let (first, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_namespace_means_itself() {
        assert_eq!(same("         0          0 4294967295\n"), "0 0 4294967295\n");
        assert_eq!(same("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
    }
}
