//! Who asks.
//!
//! Every process of an owner has the same rights, so a request cannot be kept from the process that made it by
//! permissions. What can be told apart is the POSIX session: a terminal of the owner is one, and an agent with all its
//! children is in another. A process can leave its session, but what it starts in a new one still descends from it; see
//! [`super::Granting`].

use std::fs;

use agentiso_core::SessionId;
use rustix::process::{Pid, getpid, getppid};

/// The longest name of a client in the queue.
const MAX_CLIENT: usize = 128;

/// How far up processes are followed.
const MAX_ANCESTORS: usize = 256;

/// The POSIX session that a request comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asker {
    /// The process that called.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// The id of its session.
    pub session: u32,
    /// When the leader of the session started, in clock ticks since the boot; 0 if it has ended.
    pub started: u64,
    boot_id: String,
}

impl Asker {
    /// The process that called this one.
    pub fn current() -> Self {
        Self::of(getppid().unwrap_or_else(getpid), None)
    }

    /// A process, and the session of `member`; of this process without one.
    pub fn of(process: Pid, member: Option<Pid>) -> Self {
        let pid = process.as_raw_nonzero().get().unsigned_abs();
        let session = session_of(member);
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self {
            pid,
            program: program.trim().to_owned(),
            session,
            started: started(session).unwrap_or_default(),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        }
    }

    /// The sessions of this process and of those that it descends from, as they are in the queue.
    pub fn ancestry() -> Vec<SessionId> {
        let here = Self::current();
        let mut sessions = vec![here.session()];
        let mut process = getppid();
        for _ in 0..MAX_ANCESTORS {
            // Whose parent has ended belongs to init, which says nothing about where it comes from.
            let Some(pid) = process.filter(|pid| !pid.is_init()) else { break };
            let above = Self::of(pid, Some(pid)).session();
            if !sessions.contains(&above) {
                sessions.push(above);
            }
            process = parent(pid);
        }
        sessions
    }

    /// The session of the queue that stands for this POSIX session.
    pub fn session(&self) -> SessionId {
        let text = format!("avfs session {} {} {}", self.session, self.started, self.boot_id.trim());
        let hash = blake3::hash(text.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        SessionId::from_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// How the queue names it.
    pub fn client(&self) -> String {
        let program: String = self.program.chars().filter(|c| !c.is_control()).take(32).collect();
        let name = format!("avfs, called by {program} (pid {}, session {})", self.pid, self.session);
        name.chars().take(MAX_CLIENT).collect()
    }
}

/// The session of a process; of this one without one. 0 if it is outside of the pid namespace, which `getsid` cannot say.
fn session_of(process: Option<Pid>) -> u32 {
    let process = process.unwrap_or_else(getpid).as_raw_nonzero().get().unsigned_abs();
    field(process, 3).and_then(|session| session.parse().ok()).unwrap_or_default()
}

/// When a process started.
fn started(pid: u32) -> Option<u64> {
    field(pid, 19)?.parse().ok()
}

/// The process that a process descends from.
fn parent(process: Pid) -> Option<Pid> {
    Pid::from_raw(field(process.as_raw_nonzero().get().unsigned_abs(), 1)?.parse().ok()?)
}

/// A field of what the kernel says about a process, counted from the one after its name.
fn field(pid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets and may contain brackets and spaces too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(index).map(str::to_owned)
}

/// An id for tests.
#[cfg(test)]
pub fn of_session(session: u32) -> Asker {
    Asker { pid: 7, program: "agent".to_owned(), session, started: 1, boot_id: "boot".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_the_same_for_all_its_processes_and_no_other() {
        let here = Asker::current();
        assert_eq!(
            here.session(),
            Asker { pid: here.pid + 1, program: String::new(), ..here.clone() }.session()
        );
        let others = [
            Asker { session: here.session + 1, ..here.clone() },
            Asker { started: here.started + 1, ..here.clone() },
            Asker { boot_id: "another".to_owned(), ..here.clone() },
        ];
        assert!(others.iter().all(|other| other.session() != here.session()));
        assert!(here.started > 0, "the leader of this session was not found");
    }

    #[test]
    fn processes_are_followed_up_to_the_first() {
        let ancestry = Asker::ancestry();
        assert_eq!(ancestry.first(), Some(&Asker::current().session()));
        let above = getppid().unwrap();
        assert!(ancestry.contains(&Asker::of(above, Some(above)).session()));
        let mut process = Some(getpid());
        let mut last = process;
        while let Some(pid) = process.filter(|pid| !pid.is_init()) {
            last = process;
            process = parent(pid);
        }
        let last = last.unwrap();
        assert!(ancestry.contains(&Asker::of(last, Some(last)).session()));
    }

    #[test]
    fn the_name_is_short_and_harmless() {
        let asker = Asker { program: "\x1b[2J".repeat(50), ..of_session(1) };
        assert!(asker.client().len() <= MAX_CLIENT);
        assert!(!asker.client().contains('\x1b'));
    }
}
