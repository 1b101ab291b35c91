//! The memory limits of the control groups that agentiso runs in, such as those of a container.
//!
//! A limit of any group above the process applies to it. Both versions of control groups are read; a group without a
//! limit file, such as the root, has no limit.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::pool_budget::HostMemory;

/// How one version of control groups names its files.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// The entry of `memory.stat` for pages that the kernel can drop at once.
    reclaimable: &'static str,
}

const V2: Files = Files { limit: "memory.max", used: "memory.current", reclaimable: "inactive_file " };
const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

impl HostMemory {
    /// The memory that this process may use: that of the host, within the limits of its control groups.
    pub fn read_limited() -> io::Result<Self> {
        let host = Self::read()?;
        let Some(groups) = read(Path::new("/proc/self/cgroup"))? else { return Ok(host) };
        host.within_limits(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// Applies the limits of the groups in the text of `/proc/self/cgroup`, whose files are below `mount`.
    fn within_limits(self, groups: &str, mount: &Path) -> io::Result<Self> {
        let mut memory = self;
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            let (root, files) = match controllers {
                "" => (mount.to_owned(), V2),
                _ if controllers.split(',').any(|name| name == "memory") => (mount.join("memory"), V1),
                _ => continue,
            };
            for directory in directories(&root, group) {
                memory = memory.within(&directory, &files)?;
            }
        }
        Ok(memory)
    }

    /// Applies the limit of one group.
    fn within(self, group: &Path, files: &Files) -> io::Result<Self> {
        let Some(limit) = read(&group.join(files.limit))? else { return Ok(self) };
        if limit.trim() == "max" {
            return Ok(self);
        }
        let limit = number(&limit, group)?;
        let used = read(&group.join(files.used))?.map_or(Ok(0), |used| number(&used, group))?;
        let stat = read(&group.join("memory.stat"))?.unwrap_or_default();
        let reclaimable = stat.lines().find_map(|line| line.strip_prefix(files.reclaimable));
        let reclaimable = reclaimable.map_or(Ok(0), |bytes| number(bytes, group))?;
        let left = limit.saturating_sub(used.saturating_sub(reclaimable));
        Ok(Self { total_mb: self.total_mb.min(limit >> 20), available_mb: self.available_mb.min(left >> 20) })
    }
}

/// The directory of a group and of all groups above it. In a container the path may be that of the host, of which only
/// the root exists here.
fn directories(root: &Path, group: &str) -> Vec<PathBuf> {
    let parts = Path::new(group).components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut directories = vec![root.to_owned()];
    for part in parts {
        let below = directories[directories.len() - 1].join(part);
        directories.push(below);
    }
    directories
}

/// The content of a file, if it exists.
fn read(path: &Path) -> io::Result<Option<String>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "procfs and cgroupfs are memory: reading waits for no device"
    )]
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn number(text: &str, group: &Path) -> io::Result<u64> {
    text.trim().parse().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} has an unknown format", group.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostMemory = HostMemory { total_mb: 64_000, available_mb: 50_000 };

    /// A directory with groups, each with some files.
    fn groups(files: &[(&str, &str)]) -> tempfile::TempDir {
        let mount = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = mount.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        mount
    }

    fn mb(count: u64) -> String {
        format!("{}\n", count << 20)
    }

    #[test]
    fn the_limit_of_a_container_counts() {
        let mount = groups(&[
            ("memory.max", &mb(4096)),
            ("memory.current", &mb(3000)),
            ("memory.stat", &format!("anon 7\ninactive_file {}active_file 9\n", mb(1000))),
        ]);
        let memory = HOST.within_limits("0::/\n", mount.path()).unwrap();
        assert_eq!(memory, HostMemory { total_mb: 4096, available_mb: 2096 });
    }

    #[test]
    fn the_tightest_of_all_groups_above_counts() {
        let mount = groups(&[
            ("a/memory.max", &mb(8000)),
            ("a/memory.current", &mb(7500)),
            ("a/b/memory.max", "max\n"),
            ("a/b/c/memory.max", &mb(6000)),
            ("a/b/c/memory.current", &mb(100)),
            ("other/memory.max", &mb(1)),
        ]);
        let memory = HOST.within_limits("1:cpu:/x\n0::/a/b/c\n", mount.path()).unwrap();
        assert_eq!(memory, HostMemory { total_mb: 6000, available_mb: 500 });
    }

    #[test]
    fn the_first_version_of_control_groups_counts_too() {
        let mount = groups(&[
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/box/memory.limit_in_bytes", &mb(2048)),
            ("memory/box/memory.usage_in_bytes", &mb(48)),
        ]);
        let text = "5:devices:/box\n4:cpu,memory:/box\n1:name=systemd:/\n0::/\n";
        let memory = HOST.within_limits(text, mount.path()).unwrap();
        assert_eq!(memory, HostMemory { total_mb: 2048, available_mb: 2000 });
    }

    #[test]
    fn without_limits_the_memory_is_that_of_the_host() {
        let mount = groups(&[("memory.max", "max\n")]);
        for text in ["", "0::/\n", "0::/../outside\n", "4:memory:/gone\n"] {
            assert_eq!(HOST.within_limits(text, mount.path()).unwrap(), HOST, "{text:?}");
        }
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_an_error_and_not_no_limit() {
        let mount = groups(&[("memory.max", "plenty\n")]);
        assert!(HOST.within_limits("0::/\n", mount.path()).is_err());
        let mount = groups(&[("memory.max/not-a-file", "")]);
        assert!(HOST.within_limits("0::/\n", mount.path()).is_err());
        assert!(HostMemory::read_limited().is_ok());
    }
}
