//! Rate limits of sessions.

use std::num::NonZeroU32;

use agentiso_core::action::Rate;
use agentiso_core::{Code, Failure, RateLimits, SessionId};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::Caller;

/// All sessions together may make this many times as many calls as one session.
const TOGETHER: u32 = 10;

/// The limits of one kind of action.
struct Limit {
    rate: Rate,
    per_minute: u32,
    each: DefaultKeyedRateLimiter<SessionId>,
    together: DefaultDirectRateLimiter,
}

/// All limits. None if they are switched off.
pub(crate) struct Rates {
    limits: Vec<Limit>,
}

impl Rates {
    pub fn new(config: &RateLimits) -> Self {
        let kinds = [
            (Rate::Create, config.create_per_minute),
            (Rate::Exec, config.exec_per_minute),
            (Rate::Default, config.default_per_minute),
        ];
        let limits = if config.enabled { kinds.iter().filter_map(Limit::new).collect() } else { Vec::new() };
        Self { limits }
    }

    /// Counts a call, or refuses it. The user of the machine is not counted.
    pub fn admit(&self, caller: &Caller, rate: Rate) -> Result<(), Failure> {
        let Some(session) = caller.session else { return Ok(()) };
        let Some(limit) = self.limits.iter().find(|limit| limit.rate == rate) else { return Ok(()) };
        let now = DefaultClock::default().now();
        let refused = match limit.each.check_key(&session) {
            Ok(()) => limit.together.check().err().map(|refused| ("all sessions together", refused)),
            Err(refused) => Some(("this session", refused)),
        };
        let Some((who, refused)) = refused else { return Ok(()) };
        let wait = refused.wait_time_from(now);
        let message = format!(
            "too many calls: {who} may make {} calls of the kind {:?} a minute",
            if who == "this session" { limit.per_minute } else { limit.per_minute * TOGETHER },
            name(rate)
        );
        let seconds = wait.as_secs_f64().max(0.1);
        Err(Failure::new(Code::RateLimited, message)
            .with_remedy(format!("wait {seconds:.1} s and try again; the limits are under [rate_limit]"))
            .retry_after(wait))
    }

    /// Forgets sessions that have not called for a while.
    pub fn forget_idle(&self) {
        for limit in &self.limits {
            limit.each.retain_recent();
        }
    }
}

impl Limit {
    fn new(&(rate, per_minute): &(Rate, u32)) -> Option<Self> {
        let quota = |per_minute: u32| NonZeroU32::new(per_minute).map(Quota::per_minute);
        let each = RateLimiter::keyed(quota(per_minute)?);
        let together = RateLimiter::direct(quota(per_minute.saturating_mul(TOGETHER))?);
        Some(Self { rate, per_minute, each, together })
    }
}

fn name(rate: Rate) -> &'static str {
    match rate {
        Rate::Create => "create",
        Rate::Exec => "exec",
        Rate::Default => "default",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RateLimits =
        RateLimits { enabled: true, create_per_minute: 10, exec_per_minute: 100, default_per_minute: 100 };

    fn caller() -> Caller {
        Caller { session: Some(SessionId::from_uuid(uuid::Uuid::new_v4())), client: "test".to_owned() }
    }

    fn rates(create: u32) -> Rates {
        let config = RateLimits { create_per_minute: create, ..LIMITS };
        Rates::new(&config)
    }

    #[test]
    fn a_session_that_calls_too_often_is_told_how_long_to_wait_and_others_are_not_refused() {
        let (rates, one, other) = (rates(3), caller(), caller());
        for _ in 0..3 {
            rates.admit(&one, Rate::Create).unwrap();
        }
        let refused = rates.admit(&one, Rate::Create).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(refused.remedy().unwrap().starts_with("wait "), "{refused:?}");
        rates.admit(&one, Rate::Exec).unwrap();
        rates.admit(&other, Rate::Create).unwrap();
        rates.admit(&Caller::operator("cli"), Rate::Create).unwrap();
    }

    #[test]
    fn many_sessions_together_are_refused_too() {
        let rates = rates(2);
        let admitted = (0..100).filter(|_| rates.admit(&caller(), Rate::Create).is_ok()).count();
        assert_eq!(admitted, 20);
    }

    #[test]
    fn limits_that_are_switched_off_refuse_nobody() {
        let rates = Rates::new(&RateLimits { enabled: false, create_per_minute: 1, ..LIMITS });
        let one = caller();
        assert!((0..100).all(|_| rates.admit(&one, Rate::Create).is_ok()));
    }
}
