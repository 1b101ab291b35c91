//! Answers of the host's resolvers, kept for their lifetime and shared by all workspaces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Record, RecordType};

const MAX_ENTRIES: usize = 4096;
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// How long "there is no such name" is believed.
const NEGATIVE_LIFETIME: Duration = Duration::from_secs(30);

/// What the host's resolvers said.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
}

impl Lookup {
    fn lifetime(&self) -> Duration {
        let shortest = self.answers.iter().map(|record| Duration::from_secs(record.ttl.into())).min();
        shortest.unwrap_or(NEGATIVE_LIFETIME).min(MAX_LIFETIME)
    }
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<(String, RecordType), (Instant, Arc<Lookup>)>,
}

impl Cache {
    pub(super) fn get(&self, name: &str, kind: RecordType, now: Instant) -> Option<Arc<Lookup>> {
        let (expires, lookup) = self.entries.get(&(name.to_owned(), kind))?;
        (*expires > now).then(|| Arc::clone(lookup))
    }

    /// Keeps an answer. Failures are not kept: the next query may have more luck.
    pub(super) fn insert(&mut self, name: &str, kind: RecordType, lookup: Arc<Lookup>, now: Instant) {
        if !matches!(lookup.code, ResponseCode::NoError | ResponseCode::NXDomain) {
            return;
        }
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.retain(|_, (expires, _)| *expires > now);
        }
        if self.entries.len() >= MAX_ENTRIES {
            // A guest that asks for ever new names: half of the entries go, whichever they are.
            let mut index = 0;
            self.entries.retain(|_, _| {
                index += 1;
                index % 2 == 0
            });
        }
        let expires = now + lookup.lifetime();
        self.entries.insert((name.to_owned(), kind), (expires, lookup));
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{Name, RData};

    use super::*;

    fn lookup(code: ResponseCode, ttl: u32) -> Arc<Lookup> {
        let record =
            Record::from_rdata(Name::from_ascii("a.example").unwrap(), ttl, RData::A(A::new(1, 2, 3, 4)));
        let answers = if code == ResponseCode::NoError { vec![record] } else { Vec::new() };
        Arc::new(Lookup { code, answers })
    }

    #[test]
    fn an_answer_is_kept_for_its_lifetime() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        cache.insert("a.example", RecordType::A, lookup(ResponseCode::NoError, 60), start);
        assert!(cache.get("a.example", RecordType::A, start + Duration::from_secs(59)).is_some());
        assert!(cache.get("a.example", RecordType::A, start + Duration::from_secs(60)).is_none());
        assert!(cache.get("a.example", RecordType::TXT, start).is_none());
        cache.insert("b.example", RecordType::A, lookup(ResponseCode::NoError, u32::MAX), start);
        assert!(cache.get("b.example", RecordType::A, start + MAX_LIFETIME).is_none());
    }

    #[test]
    fn a_missing_name_is_kept_briefly_and_a_failure_not_at_all() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        cache.insert("no.example", RecordType::A, lookup(ResponseCode::NXDomain, 0), start);
        cache.insert("bad.example", RecordType::A, lookup(ResponseCode::ServFail, 0), start);
        assert!(cache.get("no.example", RecordType::A, start + Duration::from_secs(29)).is_some());
        assert!(cache.get("no.example", RecordType::A, start + NEGATIVE_LIFETIME).is_none());
        assert!(cache.get("bad.example", RecordType::A, start).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        for number in 0..3 * MAX_ENTRIES {
            cache.insert(
                &format!("{number}.example"),
                RecordType::A,
                lookup(ResponseCode::NoError, 600),
                start,
            );
            assert!(cache.entries.len() <= MAX_ENTRIES);
        }
        let last = format!("{}.example", 3 * MAX_ENTRIES - 1);
        assert!(cache.get(&last, RecordType::A, start).is_some());
    }
}
