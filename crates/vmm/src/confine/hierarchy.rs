//! Finding the cgroup v2 hierarchy, and the cgroup of a process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ConfineError;

/// The controllers that limit a machine.
const NEEDED: [&str; 3] = ["memory", "cpu", "pids"];

/// The mount point of cgroup v2. Fails if it has none of the controllers.
pub(super) fn mount_point() -> Result<PathBuf, ConfineError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(ConfineError::io("read the mounts"))?;
    let mount = find_mount(&mounts).ok_or(ConfineError::NoV2)?;
    let offered = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    require_useful(&mount, &offered)?;
    Ok(mount)
}

/// One controller is enough here; missing ones are reported when limits are set.
fn require_useful(mount: &Path, offered: &str) -> Result<(), ConfineError> {
    if offered.split_whitespace().any(|controller| NEEDED.contains(&controller)) {
        return Ok(());
    }
    Err(ConfineError::NotUnified { mount: mount.to_owned(), offered: offered.trim().to_owned() })
}

/// The mount point of cgroup2 in the text of `/proc/self/mountinfo`.
fn find_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_it = file_system.split(' ').next() == Some("cgroup2");
        is_it.then(|| mount.split(' ').nth(4).map(unescape)).flatten()
    })
}

/// Decodes the octal escapes of `/proc/self/mountinfo`.
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = (first == b'\\').then(|| tail.get(..3)).flatten();
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// The group of a process below the mount point.
pub(super) fn group_of(pid: u32) -> io::Result<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    parse_group(&text).ok_or_else(|| io::Error::other("the process is in no group of cgroup v2"))
}

fn parse_group(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIFIED: &str = "24 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
        31 24 0:26 / /sys/fs/cgroup rw,nosuid shared:5 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_unified_hierarchy_is_found_wherever_it_is() {
        assert_eq!(find_mount(UNIFIED), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(find_mount(HYBRID), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(find_mount("35 31 0:32 / /cgroup2 rw - cgroup cgroup rw,memory\n"), None);
        let odd = "1 2 0:3 / /a\\040b\\134c rw - cgroup2 none rw\n";
        assert_eq!(find_mount(odd), Some(PathBuf::from("/a b\\c")));
    }

    #[test]
    fn a_hierarchy_that_limits_nothing_of_use_is_said_to() {
        let refused = require_useful(Path::new("/sys/fs/cgroup/unified"), "hugetlb\n").unwrap_err();
        assert_eq!(refused.to_string(), "cgroup v2 is at /sys/fs/cgroup/unified but offers only: hugetlb");
        let refused = require_useful(Path::new("/c"), "\n").unwrap_err();
        assert_eq!(refused.to_string(), "cgroup v2 is at /c but offers only: nothing");
        assert!(require_useful(Path::new("/c"), "cpuset cpu io memory hugetlb pids").is_ok());
        assert!(require_useful(Path::new("/c"), "memory").is_ok());
    }

    #[test]
    fn a_process_is_found_in_the_unified_hierarchy_and_not_in_another() {
        let text = "4:memory:/elsewhere\n0::/user.slice/user-1000.slice/session-3.scope\n";
        assert_eq!(parse_group(text), Some(PathBuf::from("user.slice/user-1000.slice/session-3.scope")));
        assert_eq!(parse_group("0::/\n"), Some(PathBuf::new()));
        assert_eq!(parse_group("4:memory:/\n"), None);
    }

    proptest! {
        #[test]
        fn no_list_of_mounts_is_too_odd(text in "[-0-9a-z/\\\\ \n]{0,80}(cgroup2)?[ -~\n]{0,20}") {
            let _ = (find_mount(&text), parse_group(&text));
        }
    }
}
