//! The clock for time limits.
//!
//! The wall clock can jump: it is set by hand, and over the network after a boot. That must not make a time limit expire
//! early or never. So deadlines use the kernel's clock since boot, which also runs while the host is suspended. To be
//! stored, they are expressed as points in time: the boot clock plus a fixed offset, the difference to the wall clock
//! when the first daemon of this boot started. The offset is stored together with the boot id, so that a restarted
//! daemon continues with the same clock. After a reboot a new offset is taken from the wall clock.
#![expect(clippy::disallowed_methods, reason = "`BootClock::open` runs `in_place`, once per process")]

use std::fs;
use std::path::Path;

use agentiso_blocking::in_place;
use agentiso_core::ports::Clock;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// In the data directory.
const FILE: &str = "clock.json";

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Kept {
    boot_id: String,
    offset_ns: i128,
}

/// The kernel's clock since boot, as points in time.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    offset: SignedDuration,
}

impl BootClock {
    /// Continues the clock of an installation, or starts one if this is its first daemon since the host booted.
    pub fn open(home: &Path) -> Self {
        in_place(|| Self::open_blocking(home))
    }

    fn open_blocking(home: &Path) -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let kept =
            fs::read(home.join(FILE)).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        let (offset, is_new) = choose(boot_id.trim(), kept, fresh_offset());
        if is_new {
            keep(home, boot_id.trim(), offset);
        }
        Self { offset }
    }
}

impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(since_boot() + self.offset).unwrap_or_else(|_| Timestamp::now())
    }

    fn wall(&self) -> Timestamp {
        Timestamp::now()
    }
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
        tracing::warn!(%error, "could not store the clock; the next daemon starts from the wall clock");
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
        let home = tempfile::tempdir().unwrap();
        let clock = BootClock::open(home.path());
        let (one, two) = (clock.now(), clock.now());
        assert!(one <= two);
        assert_eq!(clock.on_the_wall(one), one);
        let ahead = BootClock { offset: clock.offset + HOUR };
        let off = clock.now().duration_since(ahead.on_the_wall(ahead.now()));
        assert!(off.abs() < SignedDuration::from_secs(60), "an hour ahead is shown as the wall clock has it");
    }
}
