//! Detecting that the host's disk is full.
//!
//! QEMU pauses the guest in that case, and would wait indefinitely.

use std::path::Path;

use tokio::sync::{broadcast, watch};

use crate::qmp::Event;

/// A file system with less free space than this counts as full.
const NO_ROOM: u64 = 1 << 20;

/// Knows whether QEMU has paused the guest because the host's disk is full.
#[derive(Clone, Debug)]
pub(crate) struct DiskWatch(watch::Receiver<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    full: bool,
    /// How often the guest was resumed.
    resumed: u64,
}

impl DiskWatch {
    /// Watches QEMU's events.
    pub(crate) fn over(mut events: broadcast::Receiver<Event>) -> Self {
        let (seen, watched) = watch::channel(Seen::default());
        tokio::spawn(async move {
            loop {
                match events.recv().await {
                    Ok(event) if says_no_room(&event) => {
                        seen.send_modify(|seen| seen.full = true);
                    }
                    // It was resumed.
                    Ok(event) if event.name == "RESUME" => seen.send_modify(|seen| {
                        seen.full = false;
                        seen.resumed += 1;
                    }),
                    Err(broadcast::error::RecvError::Closed) => return,
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
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

    #[tokio::test]
    async fn other_errors_of_the_disk_are_the_guests_affair() {
        assert!(!says_no_room(&event(false, "report")));
        assert!(!says_no_room(&event(true, "report")));
        assert!(!says_no_room(&named("STOP", json!({}))));
    }
}
