//! Who asks.
//!
//! Every process of an owner has the same rights, so a request cannot be kept from the process that made it by
//! permissions. What can be told apart is the POSIX session: a terminal of the owner is one, and an agent with all its
//! children is in another. A process can leave its session; the terminal check in [`super::Granting`] is for that.

use std::fs;

use agentiso_core::SessionId;
use rustix::process::{Pid, getpid, getppid, getsid};

/// The longest name of a client in the queue.
const MAX_CLIENT: usize = 128;

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
        let session = getsid(member).map_or(0, |session| session.as_raw_nonzero().get().unsigned_abs());
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self {
            pid,
            program: program.trim().to_owned(),
            session,
            started: started(session).unwrap_or_default(),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        }
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

/// When a process started.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets and may contain brackets and spaces too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(19)?.parse().ok()
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
    fn the_name_is_short_and_harmless() {
        let asker = Asker { program: "\x1b[2J".repeat(50), ..of_session(1) };
        assert!(asker.client().len() <= MAX_CLIENT);
        assert!(!asker.client().contains('\x1b'));
    }
}
