//! Which addresses were resolved for which names, for one workspace.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Programs keep addresses longer than the answer says, so a pin lasts at least this long.
const FLOOR: Duration = Duration::from_secs(600);
/// And at most this long.
const CEILING: Duration = Duration::from_secs(24 * 3600);
/// Addresses that are remembered. The ones that expire first make room.
const MAX_ADDRESSES: usize = 4096;
/// Names that are remembered for one address.
const MAX_NAMES: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// For each address its names, the last one first, and when each expires.
    by_address: HashMap<Ipv4Addr, Vec<(String, Instant)>>,
}

impl Pins {
    /// Remembers that an address was an answer for a name.
    pub(crate) fn pin(&mut self, address: Ipv4Addr, name: &str, lifetime: Duration, now: Instant) {
        if self.by_address.len() >= MAX_ADDRESSES && !self.by_address.contains_key(&address) {
            self.make_room(now);
        }
        let names = self.by_address.entry(address).or_default();
        names.retain(|(known, expires)| known != name && *expires > now);
        names.insert(0, (name.to_owned(), now + lifetime.clamp(FLOOR, CEILING)));
        names.truncate(MAX_NAMES);
    }

    /// The names an address was resolved by, the last one first.
    pub(crate) fn names(&self, address: Ipv4Addr, now: Instant) -> Vec<String> {
        let names = self.by_address.get(&address).into_iter().flatten();
        names.filter(|(_, expires)| *expires > now).map(|(name, _)| name.clone()).collect()
    }

    /// Every address with its names, the last one first, and how long the last of them is valid.
    pub(crate) fn list(&self, now: Instant) -> Vec<(Ipv4Addr, Vec<String>, Duration)> {
        let entry = |(address, names): (&Ipv4Addr, &Vec<(String, Instant)>)| {
            let valid: Vec<_> = names.iter().filter(|(_, expires)| *expires > now).collect();
            let last = valid.iter().map(|(_, expires)| *expires).max()?;
            let names = valid.iter().map(|(name, _)| name.clone()).collect();
            Some((*address, names, last.saturating_duration_since(now)))
        };
        self.by_address.iter().filter_map(entry).collect()
    }

    fn make_room(&mut self, now: Instant) {
        self.by_address.retain(|_, names| names.iter().any(|(_, expires)| *expires > now));
        if self.by_address.len() >= MAX_ADDRESSES {
            let last = |names: &[(String, Instant)]| names.iter().map(|(_, expires)| *expires).max();
            let first =
                self.by_address.iter().min_by_key(|(_, names)| last(names)).map(|(address, _)| *address);
            first.and_then(|address| self.by_address.remove(&address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);

    #[test]
    fn a_pin_lasts_for_its_lifetime_and_at_least_for_the_floor() {
        let (mut pins, start) = (Pins::default(), Instant::now());
        pins.pin(ADDRESS, "short.example", Duration::from_secs(1), start);
        pins.pin(ADDRESS, "long.example", Duration::from_secs(3600), start);
        assert_eq!(pins.names(ADDRESS, start), ["long.example", "short.example"]);
        assert_eq!(pins.names(ADDRESS, start + Duration::from_secs(599)).len(), 2);
        assert_eq!(pins.names(ADDRESS, start + Duration::from_secs(601)), ["long.example"]);
        assert!(pins.names(ADDRESS, start + Duration::from_secs(3601)).is_empty());
        assert!(pins.names(Ipv4Addr::LOCALHOST, start).is_empty());
    }

    #[test]
    fn a_name_that_is_resolved_again_is_renewed_and_not_repeated() {
        let (mut pins, start) = (Pins::default(), Instant::now());
        pins.pin(ADDRESS, "a.example", Duration::ZERO, start);
        pins.pin(ADDRESS, "a.example", Duration::ZERO, start + Duration::from_secs(300));
        assert_eq!(pins.names(ADDRESS, start + Duration::from_secs(700)), ["a.example"]);
    }

    #[test]
    fn pins_are_bounded_and_the_first_to_expire_make_room() {
        let (mut pins, start) = (Pins::default(), Instant::now());
        pins.pin(ADDRESS, "old.example", Duration::ZERO, start);
        for low in 0..MAX_ADDRESSES as u32 + 50 {
            let address = Ipv4Addr::from_bits(0x0808_0000 | low);
            pins.pin(address, "a.example", Duration::from_secs(7200), start);
        }
        assert_eq!(pins.by_address.len(), MAX_ADDRESSES);
        assert!(pins.names(ADDRESS, start).is_empty());
        for number in 0..100 {
            pins.pin(ADDRESS, &format!("{number}.example"), Duration::ZERO, start);
        }
        assert_eq!(pins.names(ADDRESS, start).len(), MAX_NAMES);
    }
}
