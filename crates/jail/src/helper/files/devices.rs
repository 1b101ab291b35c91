//! A private `/dev`.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, symlinkat};
use rustix::io::Errno;

use super::points::Points;
use super::{Step, StepFailed, empty};
use crate::kernel::mounts::{Protection, attach, copy_tree, new_file_system, open_host, protect};

/// The devices, which are the host's own nodes: an ordinary user cannot make nodes.
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
const DIRECTORY_SIZE: &str = "64k";
const SHARED_MEMORY_SIZE: &str = "268435456";

/// Everything in `/dev`, detached.
pub(super) struct Devices {
    directory: OwnedFd,
    nodes: Vec<(&'static str, OwnedFd)>,
    terminals: OwnedFd,
    shared_memory: OwnedFd,
}

impl Devices {
    pub fn prepare() -> Result<Self, StepFailed> {
        let mut nodes = Vec::new();
        for name in NODES {
            let node = match open_host(&Path::new("/dev").join(name)) {
                Err(Errno::NOENT) => continue,
                node => node.and_then(|node| copy_tree(node, Protection::DEVICES)),
            };
            nodes.push((name, node.step(|| format!("show /dev/{name}"))?));
        }
        let of_terminals = [("newinstance", None), ("ptmxmode", Some("0666")), ("mode", Some("0620"))];
        Ok(Self {
            directory: empty("0755", DIRECTORY_SIZE).step(|| "mount /dev".to_owned())?,
            nodes,
            terminals: new_file_system("devpts", &of_terminals, Protection::DEVICES)
                .step(|| "mount /dev/pts".to_owned())?,
            shared_memory: empty("1777", SHARED_MEMORY_SIZE).step(|| "mount /dev/shm".to_owned())?,
        })
    }

    pub fn install(self, target: &Path, points: &mut Points) -> Result<(), StepFailed> {
        points
            .directory(target)
            .and_then(|at| attach(&self.directory, at))
            .step(|| format!("mount {}", target.display()))?;
        points.may_create_in(&self.directory).step(|| "look at /dev".to_owned())?;
        for (name, node) in self.nodes {
            points
                .file(&target.join(name))
                .and_then(|at| attach(node, at))
                .step(|| format!("mount /dev/{name}"))?;
        }
        for (name, mount) in [("pts", self.terminals), ("shm", self.shared_memory)] {
            points
                .directory(&target.join(name))
                .and_then(|at| attach(mount, at))
                .step(|| format!("mount /dev/{name}"))?;
        }
        for (name, to) in LINKS {
            symlinkat(to, CWD, target.join(name)).step(|| format!("make /dev/{name}"))?;
        }
        protect(&self.directory, Protection::READONLY, false).step(|| "make /dev read-only".to_owned())
    }
}
