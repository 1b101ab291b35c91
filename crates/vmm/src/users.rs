//! A user id of its own for each machine, when agentiso runs as root.
//!
//! Ids come from a reserved range. One file for the whole host lists those in use, because two installations must not use
//! the same id: a line per id with the process that has it, first the process that starts the machine, then its QEMU. An
//! id is free again when that process has ended, so it need not be released, and a restarted daemon knows which are in
//! use.
#![expect(
    clippy::disallowed_methods,
    reason = "called `in_place`, by the start of a machine and by the last drop of a `User`"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_blocking::in_place;
use rustix::fs::{FlockOperation, flock};

use crate::qemu::{Credentials, start_time};

/// The directory of the list, which is cleared by a reboot.
pub const REGISTRY: &str = "/run/agentiso-uids";
/// How many ids are tried before the range counts as full.
const TRIES: u32 = 1024;
/// One in this many claims removes the lines of ended processes.
const TIDY_EVERY: u32 = 32;

/// The group may read.
const READ: u32 = 0o040;
const EVERYBODY: u32 = 0o004;

/// The user ids of machines.
#[derive(Clone, Debug)]
pub struct Users {
    registry: PathBuf,
    first: u32,
    count: u32,
    like: Credentials,
}

/// The user of one machine, exclusive for as long as the machine runs.
#[derive(Clone, Debug)]
pub struct User {
    credentials: Credentials,
    claim: Option<Arc<Claim>>,
}

#[derive(Debug)]
struct Claim {
    registry: PathBuf,
    uid: u32,
    owner: Owner,
}

/// A process, identified by its id and start time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Owner {
    pid: u32,
    started: u64,
}

impl Users {
    /// `count` users with ids from `first`, with the groups of `like`.
    pub fn new(registry: &Path, first: u32, count: u32, like: Credentials) -> Self {
        Self { registry: registry.to_owned(), first, count, like }
    }

    /// The group of all of them. Every machine can read what this group can.
    pub fn group(&self) -> u32 {
        self.like.gid
    }

    /// The first and the last id; `None` if all machines have the same user.
    pub fn range(&self) -> Option<(u32, u32)> {
        (self.count > 0).then(|| (self.first, self.first.saturating_add(self.count - 1)))
    }

    /// Whether an id is in the range.
    fn gives(&self, uid: u32) -> bool {
        self.range().is_some_and(|(first, last)| (first..=last).contains(&uid))
    }

    /// Makes a base or backing file readable, and not writable, for all machines. A file that belongs to a machine keeps
    /// its owner: the machine is being forked, and the file changes hands when it is frozen.
    pub(crate) fn share(&self, path: &Path) -> io::Result<()> {
        let about = fs::metadata(path)?;
        if self.gives(about.uid()) {
            return if about.mode() & READ == READ { Ok(()) } else { add_read(path) };
        }
        let is_base = about.uid() == 0 && about.mode() & 0o060 == READ && about.gid() == self.like.gid;
        // Files that everybody can read, such as the host's kernel, are not changed.
        if is_base || about.mode() & EVERYBODY == EVERYBODY { Ok(()) } else { make_base(path, self.like.gid) }
    }

    /// Claims a user that no other machine has.
    pub fn claim(&self) -> io::Result<User> {
        if self.count == 0 {
            return Ok(User { credentials: self.like, claim: None });
        }
        let owner = Owner::this()?;
        let registry = Registry::lock(&self.registry)?;
        let mut taken = registry.read()?;
        let start = random();
        if start.is_multiple_of(TIDY_EVERY) {
            taken.retain(|(_, owner)| owner.is_alive());
        }
        let candidates = (0..self.count.min(TRIES)).map(|turn| start.wrapping_add(turn) % self.count);
        for uid in candidates.map(|offset| self.first + offset) {
            if taken.iter().any(|(one, owner)| *one == uid && owner.is_alive()) {
                continue;
            }
            taken.retain(|(one, _)| *one != uid);
            taken.push((uid, owner));
            registry.write(&taken)?;
            let claim = Claim { registry: self.registry.clone(), uid, owner };
            let credentials = Credentials { uid, ..self.like };
            return Ok(User { credentials, claim: Some(Arc::new(claim)) });
        }
        Err(io::Error::other(format!("the user ids from {} on are all in use", self.first)))
    }
}

impl User {
    /// Its ids.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The user and group of files it owns.
    pub fn owner(&self) -> (u32, u32) {
        (self.credentials.uid, self.credentials.gid)
    }

    /// Assigns it to a process, until that ends.
    pub(crate) fn belongs_to(&self, pid: u32) -> io::Result<()> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let Some(started) = start_time(pid)? else { return Ok(()) };
        let registry = Registry::lock(&claim.registry)?;
        let mut taken = registry.read()?;
        taken.retain(|(uid, _)| *uid != claim.uid);
        taken.push((claim.uid, Owner { pid, started }));
        registry.write(&taken)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let free = || {
            let registry = Registry::lock(&self.registry)?;
            let mut taken = registry.read()?;
            let before = taken.len();
            taken.retain(|line| *line != (self.uid, self.owner));
            if taken.len() == before { Ok(()) } else { registry.write(&taken) }
        };
        if let Err(error) = in_place(free) {
            // It becomes free when this process ends.
            tracing::debug!(%error, uid = self.uid, "could not release a user id");
        }
    }
}

impl Owner {
    fn this() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_time(pid)?.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
        Ok(Self { pid, started })
    }

    /// If that cannot be determined it is assumed to be alive.
    fn is_alive(&self) -> bool {
        start_time(self.pid).map_or(true, |started| started == Some(self.started))
    }
}

/// The list, locked.
struct Registry {
    dir: PathBuf,
    _lock: File,
}

impl Registry {
    fn lock(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    fn read(&self) -> io::Result<Vec<(u32, Owner)>> {
        match fs::read_to_string(self.dir.join("taken")) {
            Ok(text) => Ok(text.lines().filter_map(parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, taken: &[(u32, Owner)]) -> io::Result<()> {
        let line = |(uid, owner): &(u32, Owner)| format!("{uid} {} {}\n", owner.pid, owner.started);
        let partial = self.dir.join(".taken");
        fs::write(&partial, taken.iter().map(line).collect::<String>())?;
        fs::rename(partial, self.dir.join("taken"))
    }
}

fn parse(line: &str) -> Option<(u32, Owner)> {
    let mut fields = line.split(' ');
    let uid = fields.next()?.parse().ok()?;
    Some((uid, Owner { pid: fields.next()?.parse().ok()?, started: fields.next()?.parse().ok()? }))
}

fn random() -> u32 {
    uuid::Uuid::new_v4().as_u128() as u32
}

/// Gives a file to root, readable by a group. Of a link, only the owner is changed.
pub fn make_base(path: &Path, group: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(0), Some(group))?;
    if path.symlink_metadata()?.is_file() {
        fs::set_permissions(path, Permissions::from_mode(0o640))?;
    }
    Ok(())
}

fn add_read(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.mode();
    fs::set_permissions(path, Permissions::from_mode(mode & 0o777 | READ))
}

/// Whether all ids of a range exist, according to `/proc/self/uid_map`: in a container there may be few.
pub fn ids_exist(uid_map: &str, first: u32, count: u32) -> bool {
    let (first, end) = (u64::from(first), u64::from(first) + u64::from(count));
    uid_map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (inside, _, length) = (numbers.next(), numbers.next(), numbers.next());
        matches!((inside, length), (Some(inside), Some(length)) if inside <= first && end <= inside + length)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    const LIKE: Credentials = Credentials { uid: 65534, gid: 65534, kvm_gid: Some(104) };

    fn uid(user: &User) -> u32 {
        user.credentials().uid
    }

    #[test]
    fn every_machine_has_an_id_of_its_own_until_there_are_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let users = Users::new(&dir.path().join("uids"), 5000, 8, LIKE);
        let claimed: Vec<User> = (0..8).map(|_| users.claim().unwrap()).collect();
        let ids: BTreeSet<u32> = claimed.iter().map(uid).collect();
        assert_eq!(ids, (5000..5008).collect());
        assert!(claimed.iter().all(|user| user.credentials().gid == 65534));
        assert!(users.claim().unwrap_err().to_string().contains("all in use"));
        drop(claimed);
        users.claim().unwrap();
    }

    #[test]
    fn an_id_is_taken_for_as_long_as_its_process_lives_whoever_asks() {
        let dir = tempfile::tempdir().unwrap();
        let users = || Users::new(dir.path(), 5000, 1, LIKE);
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let user = users().claim().unwrap();
        user.belongs_to(process.id()).unwrap();
        drop(user);
        assert!(users().claim().is_err(), "another daemon finds it taken");
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(uid(&users().claim().unwrap()), 5000);
    }

    #[test]
    fn an_id_whose_owner_died_before_it_had_a_machine_is_free() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("taken"), "5000 4194305 1\nnonsense\n5001 1 0\n").unwrap();
        let users = Users::new(dir.path(), 5000, 2, LIKE);
        let claimed = [users.claim().unwrap(), users.claim().unwrap()];
        assert_ne!(uid(&claimed[0]), uid(&claimed[1]));
    }

    #[test]
    fn what_belongs_to_a_machine_stays_its_own_when_others_stand_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        fs::write(&disk, "x").unwrap();
        fs::set_permissions(&disk, Permissions::from_mode(0o600)).unwrap();
        // To root everything it has is a base already, so that this is about a machine with our user.
        let me = fs::metadata(&disk).unwrap();
        let users = Users::new(dir.path(), me.uid(), 1, Credentials { gid: me.gid(), ..LIKE });
        users.share(&disk).unwrap();
        let shared = fs::metadata(&disk).unwrap();
        assert_eq!((shared.uid(), shared.mode() & 0o777), (me.uid(), 0o640));
        users.share(&disk).unwrap();
    }

    #[test]
    fn without_a_range_all_have_the_same_user() {
        let users = Users::new(Path::new("/nonexistent/uids"), 0, 0, LIKE);
        assert_eq!(users.claim().unwrap().credentials(), LIKE);
        assert_eq!(users.range(), None);
    }

    #[test]
    fn a_container_without_these_ids_is_noticed() {
        assert!(ids_exist("         0          0 4294967295\n", 1_900_000_000, 65_536));
        assert!(!ids_exist("         0     100000      65536\n", 1_900_000_000, 65_536));
        assert!(ids_exist("0 100000 65536\n65536 200000 65536\n", 70_000, 1000));
        assert!(!ids_exist("0 100000 65536\n", 65_000, 1000));
        assert!(!ids_exist("", 1, 1));
    }
}
