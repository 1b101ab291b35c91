//! Where groups can be made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A controller of cgroups.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

/// A version of the interface.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Version {
    One,
    Two,
}

/// A directory in which groups with a controller can be made, if its permissions allow it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Parent {
    pub version: Version,
    pub dir: PathBuf,
}

impl Controller {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// For each controller the directories to try, in order. `mounts` and `own` are the contents of `/proc/self/mountinfo` and
/// `/proc/self/cgroup`; `enabled` reads which controllers the groups in a directory of version 2 have.
pub(super) fn parents(
    mounts: &str,
    own: &str,
    enabled: &dyn Fn(&Path) -> Option<String>,
) -> BTreeMap<Controller, Vec<Parent>> {
    let mut found: BTreeMap<Controller, Vec<Parent>> = BTreeMap::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let version = if controllers.is_empty() { Version::Two } else { Version::One };
        let Some(dir) = directory(mounts, version, controllers, path) else { continue };
        for controller in Controller::ALL {
            let has =
                |list: &str, separator: char| list.split(separator).any(|name| name == controller.name());
            let parents = found.entry(controller).or_default();
            match version {
                Version::One if has(controllers, ',') => parents.push(Parent { version, dir: dir.clone() }),
                Version::One => {}
                // Groups with controllers cannot be below one with processes, so they are made beside the caller's own.
                Version::Two => {
                    let candidates = dir.parent().into_iter().chain([dir.as_path()]);
                    let candidates =
                        candidates.filter(|dir| enabled(dir).is_some_and(|list| has(list.trim(), ' ')));
                    parents.extend(candidates.map(|dir| Parent { version, dir: dir.to_owned() }));
                }
            }
        }
    }
    found.retain(|_, parents| !parents.is_empty());
    found
}

/// The directory of a group.
fn directory(mounts: &str, version: Version, controllers: &str, path: &str) -> Option<PathBuf> {
    let is_wanted = |kind: &str, options: &str| match version {
        Version::Two => kind == "cgroup2",
        Version::One => {
            kind == "cgroup" && controllers.split(',').all(|name| options.split(',').any(|one| one == name))
        }
    };
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, at) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        is_wanted(kind, options).then(|| Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    fn dirs(parents: &BTreeMap<Controller, Vec<Parent>>, controller: Controller) -> Vec<String> {
        let parents = parents.get(&controller).into_iter().flatten();
        parents.map(|parent| format!("{:?} {}", parent.version, parent.dir.display())).collect()
    }

    #[test]
    fn each_controller_of_version_1_has_a_hierarchy() {
        let own = "4:memory:/service/x\n1:cpu:/\n0::/\n";
        let found = parents(HYBRID, own, &|_| Some("hugetlb".to_owned()));
        assert_eq!(dirs(&found, Controller::Memory), ["One /sys/fs/cgroup/memory/service/x"]);
        assert_eq!(dirs(&found, Controller::Cpu), ["One /sys/fs/cgroup/cpu/"]);
        assert_eq!(dirs(&found, Controller::Pids), Vec::<String>::new());
    }

    #[test]
    fn in_version_2_a_group_is_made_beside_the_callers_own() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let enabled = |dir: &Path| dir.ends_with("app.slice").then(|| "memory pids\n".to_owned());
        let found = parents(mounts, "0::/user.slice/app.slice/x.scope\n", &enabled);
        assert_eq!(dirs(&found, Controller::Memory), ["Two /sys/fs/cgroup/user.slice/app.slice"]);
        assert_eq!(dirs(&found, Controller::Cpu), Vec::<String>::new());
    }

    #[test]
    fn a_mount_of_a_part_of_the_hierarchy_is_understood() {
        let mounts = "29 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let all = |_: &Path| Some("cpu memory pids".to_owned());
        let found = parents(mounts, "0::/docker/abc\n", &all);
        assert!(dirs(&found, Controller::Cpu).contains(&"Two /sys/fs/cgroup/".to_owned()));
        assert!(parents(mounts, "0::/elsewhere\n", &all).is_empty());
    }
}
