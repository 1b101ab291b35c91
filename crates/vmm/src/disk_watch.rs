//! Detecting that the host's disk is full.
//!
//! QEMU pauses the guest in that case, and would wait indefinitely.
//!
//! QEMU since 10.0 reports at most one error of a disk per second and holds back the others, so a report can arrive when
//! the guest has long been resumed. Reports that were made before the last resumption are ignored.

use std::path::Path;
use std::time::Duration;

use tokio::sync::{broadcast, watch};

use crate::qmp::Event;

/// A file system with less free space than this counts as full.
const NO_ROOM: u64 = 1 << 20;

/// QEMU holds back a report for at most a second. An older one comes from a clock that was set back.
const HELD_BACK: Duration = Duration::from_secs(2);

/// Knows whether QEMU has paused the guest because the host's disk is full.
#[derive(Clone, Debug)]
pub(crate) struct DiskWatch(watch::Receiver<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    full: bool,
    /// How often the guest was resumed.
    resumed: u64,
    /// When that was last, by QEMU's clock.
    resumed_at: Duration,
}

impl Seen {
    fn note(&mut self, event: &Event) {
        if event.name == "RESUME" {
            self.full = false;
            self.resumed += 1;
            self.resumed_at = event.at;
        } else if says_no_room(event) && !self.is_late(event) {
            self.full = true;
        }
    }

    /// Whether an event happened before the guest was resumed.
    fn is_late(&self, event: &Event) -> bool {
        self.resumed_at.checked_sub(event.at).is_some_and(|late| !late.is_zero() && late < HELD_BACK)
    }
}

impl DiskWatch {
    /// Watches QEMU's events.
    pub(crate) fn over(mut events: broadcast::Receiver<Event>) -> Self {
        let (seen, watched) = watch::channel(Seen::default());
        tokio::spawn(async move {
            loop {
                match events.recv().await {
                    Ok(event) => seen.send_modify(|seen| seen.note(&event)),
                    Err(broadcast::error::RecvError::Closed) => return,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                }
            }
        });
        Self(watched)
    }

    /// Whether the guest is paused because the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// How often the guest was resumed so far.
    pub(crate) fn resumed(&self) -> u64 {
        self.0.borrow().resumed
    }

    /// Waits until the guest was resumed more often than that. It may have been paused again since.
    pub(crate) async fn resumed_since(&self, before: u64) {
        let _ = self.0.clone().wait_for(|seen| seen.resumed > before).await;
    }

    /// Waits until the guest is paused because the disk is full.
    pub(crate) async fn full(&self) {
        if self.0.clone().wait_for(|seen| seen.full).await.is_err() {
            // The monitor closed, so the process is ending, which is reported elsewhere.
            std::future::pending().await
        }
    }
}

fn says_no_room(event: &Event) -> bool {
    event.name == "BLOCK_IO_ERROR" && event.data["nospace"] == true && event.data["action"] == "stop"
}

/// Whether the file system of a directory is full.
pub(crate) fn is_full(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|stat| stat.f_bavail * stat.f_frsize < NO_ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(name: &str, data: serde_json::Value) -> Event {
        Event { name: name.to_owned(), data, at: std::time::Duration::ZERO }
    }

    fn event(nospace: bool, action: &str) -> Event {
        named("BLOCK_IO_ERROR", json!({ "nospace": nospace, "action": action }))
    }

    #[tokio::test]
    async fn a_stop_for_lack_of_room_is_remembered_until_the_guest_goes_on() {
        let (events, receiver) = broadcast::channel(8);
        let watch = DiskWatch::over(receiver);
        events.send(event(true, "stop")).unwrap();
        watch.full().await;
        assert!(watch.is_full());
        events.send(named("RESUME", json!({}))).unwrap();
        watch.resumed_since(0).await;
        assert!(!watch.is_full());
    }

    #[tokio::test]
    async fn a_resumption_is_noticed_even_if_the_guest_was_paused_again_at_once() {
        let (events, receiver) = broadcast::channel(8);
        let watch = DiskWatch::over(receiver);
        events.send(event(true, "stop")).unwrap();
        watch.full().await;
        let before = watch.resumed();
        events.send(named("RESUME", json!({}))).unwrap();
        events.send(event(true, "stop")).unwrap();
        watch.resumed_since(before).await;
        watch.full().await;
        assert_eq!(watch.resumed(), before + 1);
    }

    #[test]
    fn a_report_that_was_held_back_until_the_guest_was_resumed_is_ignored() {
        let at = |ms, event: Event| Event { at: Duration::from_millis(ms), ..event };
        let seen = |events: &[Event]| {
            let mut seen = Seen::default();
            events.iter().for_each(|event| seen.note(event));
            seen.full
        };
        let (first, resumed) = (at(10_000, event(true, "stop")), at(10_300, named("RESUME", json!({}))));
        let held_back = at(10_001, event(true, "stop"));
        assert!(!seen(&[first.clone(), resumed.clone(), held_back]));
        let again = at(10_301, event(true, "stop"));
        assert!(seen(&[first.clone(), resumed.clone(), again]));
        let clock_set_back = at(5_000, event(true, "stop"));
        assert!(seen(&[first, resumed, clock_set_back]));
    }

    #[tokio::test]
    async fn other_errors_of_the_disk_are_the_guests_affair() {
        assert!(!says_no_room(&event(false, "report")));
        assert!(!says_no_room(&event(true, "report")));
        assert!(!says_no_room(&named("STOP", json!({}))));
    }
}
