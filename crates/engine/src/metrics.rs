//! Counters of calls, by action and outcome.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use crate::live_state::locked;

/// Upper bounds in seconds: from a file's read to a build of half an hour.
const BOUNDS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0];

/// Counts and times of actions.
#[derive(Default)]
pub struct Metrics {
    actions: Mutex<BTreeMap<String, Times>>,
}

#[derive(Clone, Default)]
struct Times {
    outcomes: BTreeMap<String, u64>,
    buckets: [u64; BOUNDS.len()],
    sum: f64,
    count: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn count(&self, action: &str, outcome: &str, took: Duration) {
        let mut actions = locked(&self.actions);
        if !actions.contains_key(action) {
            actions.insert(action.to_owned(), Times::default());
        }
        let Some(times) = actions.get_mut(action) else { return };
        match times.outcomes.get_mut(outcome) {
            Some(count) => *count += 1,
            None => {
                times.outcomes.insert(outcome.to_owned(), 1);
            }
        }
        let seconds = took.as_secs_f64();
        times.sum += seconds;
        times.count += 1;
        for (bucket, bound) in times.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self, workspaces: &BTreeMap<String, usize>, uptime: Duration) -> String {
        let mut text = String::from(
            "# HELP agentiso_workspaces Workspaces by state.\n# TYPE agentiso_workspaces gauge\n",
        );
        for state in ["running", "stopped", "suspended"] {
            let count = workspaces.get(state).copied().unwrap_or_default();
            let _ = writeln!(text, "agentiso_workspaces{{state=\"{state}\"}} {count}");
        }
        let _ = write!(
            text,
            "# HELP agentiso_uptime_seconds Seconds since the daemon started.\n\
             # TYPE agentiso_uptime_seconds gauge\nagentiso_uptime_seconds {}\n\
             # HELP agentiso_actions_total Actions by name and outcome.\n# TYPE agentiso_actions_total counter\n",
            uptime.as_secs()
        );
        let actions = locked(&self.actions).clone();
        for (action, times) in &actions {
            for (outcome, count) in &times.outcomes {
                let _ = writeln!(
                    text,
                    "agentiso_actions_total{{action=\"{action}\",outcome=\"{outcome}\"}} {count}"
                );
            }
        }
        text.push_str(
            "# HELP agentiso_action_duration_seconds How long actions took.\n\
             # TYPE agentiso_action_duration_seconds histogram\n",
        );
        for (action, times) in &actions {
            let name = "agentiso_action_duration_seconds";
            for (bucket, bound) in times.buckets.iter().zip(BOUNDS) {
                let _ = writeln!(text, "{name}_bucket{{action=\"{action}\",le=\"{bound}\"}} {bucket}");
            }
            let _ = writeln!(text, "{name}_bucket{{action=\"{action}\",le=\"+Inf\"}} {}", times.count);
            let _ = writeln!(text, "{name}_sum{{action=\"{action}\"}} {}", times.sum);
            let _ = writeln!(text, "{name}_count{{action=\"{action}\"}} {}", times.count);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_minutes_is_in_a_bucket_of_its_own_and_all_below_are_cumulative() {
        let metrics = Metrics::new();
        metrics.count("exec", "ok", Duration::from_secs(200));
        metrics.count("exec", "timeout", Duration::from_millis(2));
        let text = metrics.text(&BTreeMap::from([("running".to_owned(), 3)]), Duration::from_secs(5));
        for line in [
            "agentiso_workspaces{state=\"running\"} 3",
            "agentiso_workspaces{state=\"stopped\"} 0",
            "agentiso_actions_total{action=\"exec\",outcome=\"ok\"} 1",
            "agentiso_action_duration_seconds_bucket{action=\"exec\",le=\"60\"} 1",
            "agentiso_action_duration_seconds_bucket{action=\"exec\",le=\"300\"} 2",
            "agentiso_action_duration_seconds_count{action=\"exec\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
