//! The time that decides when a workspace's time is up.
//!
//! The wall clock jumps: it is set by hand, and by the network after a boot. A time limit must not be over early, or
//! never, because of that. So deadlines are counted on the kernel's clock since boot, which also runs while the host
//! sleeps. To be comparable with what is stored they are written as points in time: the boot clock plus a fixed offset,
//! which is the difference to the wall clock when the first daemon of this boot started. The offset is kept in a file
//! beside the identity of the boot, so that a daemon that is restarted goes on with the same clock. After a reboot
//! there is nothing but the wall clock to say how much time has passed, and a new offset is taken from it.
#![expect(clippy::disallowed_methods, reason = "read once, when the daemon starts")]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// In the data directory.
const FILE: &str = "clock.json";
/// Smaller differences between the two clocks come from reading one after the other.
const JITTER: SignedDuration = SignedDuration::from_secs(2);

static OFFSET: OnceLock<SignedDuration> = OnceLock::new();

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Kept {
    boot_id: String,
    offset_ns: i128,
}

/// Takes up the clock of an installation. Only the first call in a process counts.
pub(crate) fn start(home: &Path) {
    OFFSET.get_or_init(|| {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let kept =
            fs::read(home.join(FILE)).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        let (offset, is_new) = choose(boot_id.trim(), kept, fresh_offset());
        if is_new {
            keep(home, boot_id.trim(), offset);
        }
        offset
    });
}

/// Now, on a clock that nobody sets.
pub(crate) fn now() -> Timestamp {
    let offset = *OFFSET.get_or_init(fresh_offset);
    Timestamp::UNIX_EPOCH.checked_add(since_boot() + offset).unwrap_or_else(|_| Timestamp::now())
}

/// What the wall clock will show at a point in time of this clock, for people to read.
pub(crate) fn on_the_wall(at: Timestamp) -> Timestamp {
    let off = Timestamp::now().duration_since(now());
    if off.abs() <= JITTER { at } else { at.checked_add(off).unwrap_or(at) }
}

/// The offset to use, and whether it is a new one.
fn choose(boot_id: &str, kept: Option<Kept>, fresh: SignedDuration) -> (SignedDuration, bool) {
    match kept {
        Some(kept) if kept.boot_id == boot_id && !boot_id.is_empty() => {
            (SignedDuration::from_nanos_i128(kept.offset_ns), false)
        }
        _ => (fresh, true),
    }
}

fn keep(home: &Path, boot_id: &str, offset: SignedDuration) {
    let kept = Kept { boot_id: boot_id.to_owned(), offset_ns: offset.as_nanos() };
    let (path, partial) = (home.join(FILE), home.join(format!("{FILE}.new")));
    let written = serde_json::to_vec(&kept).map_err(std::io::Error::other);
    let written =
        written.and_then(|bytes| fs::write(&partial, bytes)).and_then(|()| fs::rename(&partial, &path));
    if let Err(error) = written {
        tracing::warn!(%error, "could not store the clock; the next daemon begins with the wall clock");
    }
}

fn fresh_offset() -> SignedDuration {
    Timestamp::now().duration_since(Timestamp::UNIX_EPOCH) - since_boot()
}

fn since_boot() -> SignedDuration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    SignedDuration::new(time.tv_sec, i32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    #[test]
    fn a_daemon_that_is_restarted_goes_on_with_the_clock_it_had() {
        // The wall clock was set an hour ahead meanwhile.
        let kept = || Some(Kept { boot_id: "one".to_owned(), offset_ns: HOUR.as_nanos() });
        assert_eq!(choose("one", kept(), HOUR + HOUR), (HOUR, false));
        assert_eq!(choose("two", kept(), HOUR + HOUR), (HOUR + HOUR, true), "after a reboot");
        assert_eq!(choose("one", None, HOUR), (HOUR, true));
        let nameless = Some(Kept { boot_id: String::new(), offset_ns: 0 });
        assert_eq!(choose("", nameless, HOUR), (HOUR, true), "a boot that has no name is a new one");
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let home = tempfile::tempdir().unwrap();
        keep(home.path(), "one", HOUR);
        let kept: Kept = serde_json::from_slice(&fs::read(home.path().join(FILE)).unwrap()).unwrap();
        assert_eq!(choose("one", Some(kept), SignedDuration::ZERO), (HOUR, false));
    }

    #[test]
    fn the_clock_goes_forward_and_agrees_with_the_wall_as_long_as_that_is_not_set() {
        let (one, two) = (now(), now());
        assert!(one <= two);
        assert!(Timestamp::now().duration_since(two).abs() <= JITTER);
        assert_eq!(on_the_wall(one), one);
    }
}
