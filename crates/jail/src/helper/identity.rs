//! The users and groups of a user namespace.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::set_thread_groups;

use crate::spec::ShownUser;

/// The user and group of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Caller {
    user: u32,
    group: u32,
}

impl Caller {
    pub fn of_this_process() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
    }

    /// Whether it is root in its user namespace.
    pub fn is_root(self) -> bool {
        self.user == 0
    }
}

/// The maps of a user namespace.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Maps {
    users: String,
    groups: String,
    /// Whether the kernel requires that `setgroups` is denied.
    deny_setgroups: bool,
}

impl Maps {
    /// The maps of a sandbox that this process starts for `caller`. Root keeps all users that it has, so that owners of files
    /// look right; others have themselves alone. In the user namespace of a network this process may have another number
    /// than its caller.
    pub fn plan(shown: ShownUser, caller: Caller) -> io::Result<Self> {
        let now = Caller::of_this_process();
        if now.is_root() && caller.is_root() {
            // Without the supplementary groups there is nothing more to gain by them.
            let may_set_groups = set_thread_groups(&[]).is_ok();
            let of = |name: &str| fs::read_to_string(Path::new("/proc/self").join(name));
            let (users, groups) = (same(&of("uid_map")?), same(&of("gid_map")?));
            return Ok(Self { users, groups, deny_setgroups: !may_set_groups });
        }
        let one = |wanted: u32, outside: u32| {
            let inside = if shown == ShownUser::Root { 0 } else { wanted };
            format!("{inside} {outside} 1\n")
        };
        let (users, groups) = (one(caller.user, now.user), one(caller.group, now.group));
        Ok(Self { users, groups, deny_setgroups: true })
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
