//! Repeats: run a command, kill something, check what is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentiso_testing::Dice;

use crate::command::{Agentiso, Answer};
use crate::content::{NOTHING, on_disk, on_disk_and_in_memory, write};
use crate::full_disk::Filler;
use crate::leaks;
use crate::model::{Kept, Known, Listed, listed, listed_snapshots};
use crate::plan::Plan;
use crate::strike::{Strike, Victim, kill, qemus};

/// The assumed duration of a command before it was measured.
const TYPICAL: Duration = Duration::from_millis(300);
/// All snapshots are checked every so many rounds.
const VERIFY_EVERY: u64 = 12;

/// The length of a run.
pub struct Limits {
    pub seed: u64,
    pub rounds: u64,
    /// No round begins after this time, unless a number of rounds was requested.
    pub time: Option<Duration>,
}

impl Limits {
    /// From the environment, otherwise a short run.
    pub fn from_environment(rounds: u64) -> Self {
        let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
        let asked = number("AGENTISO_FAULT_ROUNDS");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            seed: number("AGENTISO_FAULT_SEED").unwrap_or(now.as_secs()),
            rounds: asked.unwrap_or(rounds),
            time: asked.is_none().then_some(Duration::from_secs(60)),
        }
    }
}

/// Statistics for people.
#[derive(Debug, Default)]
struct Figures {
    rounds: u64,
    strikes: BTreeMap<String, u64>,
    answered: u64,
    failed: BTreeMap<String, u64>,
    verified: u64,
    full: u64,
}

/// One run on one home.
pub struct Run {
    agentiso: Agentiso,
    known: BTreeMap<String, Known>,
    dice: Dice,
    limits: Limits,
    typical: BTreeMap<&'static str, Duration>,
    filler: Option<Filler>,
    figures: Figures,
}

impl Run {
    pub fn new(home: &Path, limits: Limits) -> Self {
        let agentiso = Agentiso::new(home);
        Self {
            agentiso,
            known: BTreeMap::new(),
            dice: Dice::new(limits.seed),
            limits,
            typical: BTreeMap::new(),
            filler: None,
            figures: Figures::default(),
        }
    }

    /// The same, on a home whose disk can be filled.
    pub fn filling(mut self, file: PathBuf) -> Self {
        self.filler = Some(Filler::new(file));
        self
    }

    /// Runs all rounds and a final check of everything.
    #[expect(
        clippy::print_stderr,
        reason = "a failed run must be repeatable, a successful one prints its figures"
    )]
    pub fn go(mut self) {
        eprintln!("AGENTISO_FAULT_SEED={}", self.limits.seed);
        let began = Instant::now();
        for round in 0..self.limits.rounds {
            if self.limits.time.is_some_and(|time| began.elapsed() > time) {
                break;
            }
            self.round(round);
            if round % VERIFY_EVERY == VERIFY_EVERY - 1 {
                self.verify_snapshots(round);
            }
        }
        self.verify_by_restoring();
        let names: Vec<String> = self.known.keys().cloned().collect();
        for name in names {
            self.agentiso.must(&["rm", "--force", &name]);
        }
        leaks::check_empty(self.agentiso.home());
        eprintln!("{:#?}\nin {:.0?}", self.figures, began.elapsed());
    }

    #[expect(clippy::print_stderr, reason = "the last line before a failure shows the current command")]
    fn round(&mut self, round: u64) {
        let plan = Plan::choose(&self.known, round, &mut self.dice);
        if let Some(of) = plan.keeps_present_of()
            && self.known[of].runs()
        {
            let (of, token) = (of.to_owned(), format!("token-{round}"));
            write(&self.agentiso, &of, &token);
            let known = self.known.get_mut(&of).unwrap();
            (known.disk, known.memory) = (vec![token.clone()], Some(token));
        }
        let typical = self.typical.get(plan.kind()).copied().unwrap_or(TYPICAL);
        let mut strike = Strike::within(typical, &mut self.dice);
        let full = match &self.filler {
            Some(filler) if self.known.len() > 1 && self.dice.chance(60) => {
                filler.fill(self.dice.below(3 << 20));
                if self.dice.chance(40) {
                    self.run_out_of_room();
                }
                true
            }
            _ => false,
        };
        eprintln!("round {round}: {} {strike:?}{}", plan.words().join(" "), if full { " full" } else { "" });
        let answer = self.agentiso.run(&plan.words(), &mut strike);
        if let Some(filler) = &self.filler {
            filler.clear();
        }
        // If it failed because the disk was full, the next command cleans up after it.
        drop(leaks::keep_maintenance_away(self.agentiso.home()));
        eprintln!("  given: {}, {:?} after {:.0?}", answer.is_given(), answer.error_code(), answer.took);
        self.count(&plan, &strike, &answer, full);
        self.settle(&plan, &strike, &answer, full);
        leaks::check(self.agentiso.home());
        self.look_at_all();
    }

    /// Makes a machine write more than fits on the disk: it pauses until there is space.
    fn run_out_of_room(&mut self) {
        let running: Vec<&String> =
            self.known.iter().filter(|(_, known)| known.runs()).map(|(name, _)| name).collect();
        if let Some(&name) = self.dice.pick(&running) {
            let write = "head -c 8M /dev/urandom > /more; sync";
            let answer = self.agentiso.run(&["exec", name, "--", "sh", "-c", write], &mut Strike::none());
            // Its memory base is on the same disk, and on some file systems reading that needs space too.
            let is_expected = matches!(answer.error_code(), Some("disk_full" | "vm_crashed"));
            assert!(
                is_expected || answer.is_given(),
                "{name} did not report that the disk is full: {answer:?}"
            );
        }
    }

    fn count(&mut self, plan: &Plan, strike: &Strike, answer: &Answer, full: bool) {
        self.figures.rounds += 1;
        self.figures.full += u64::from(full);
        let missed = if answer.is_given() && strike.hits_daemon() { " (too late)" } else { "" };
        *self.figures.strikes.entry(format!("{:?}{missed}", strike.victim)).or_default() += 1;
        self.figures.answered += u64::from(answer.is_given());
        if let Some(code) = answer.error_code() {
            *self.figures.failed.entry(format!("{}: {code}", plan.kind())).or_default() += 1;
        }
        if strike.victim == Victim::Nobody && !full {
            let refused =
                matches!(plan, Plan::RemoveSnapshot { .. }) && answer.error_code() == Some("snapshot_in_use");
            assert!(answer.is_given() || refused, "{plan:?} failed although nothing was killed: {answer:?}");
        }
        if answer.is_given() && strike.killed.is_none() && !full {
            // A command that had to create a template first is not a measure for the next.
            let before = self.typical.get(plan.kind()).copied().unwrap_or(TYPICAL);
            self.typical.insert(plan.kind(), answer.took.min(before * 2));
        }
        assert_ne!(answer.error_code(), Some("internal"), "{plan:?}: {answer:?}");
    }

    /// Compares the actual with the expected state.
    fn settle(&mut self, plan: &Plan, strike: &Strike, answer: &Answer, full: bool) {
        let now: BTreeMap<String, Listed> =
            listed(&self.agentiso).into_iter().map(|one| (one.name.clone(), one)).collect();
        let given = answer.is_given();
        let blame = format!("after {plan:?}, {strike:?}, {answer:?}");
        for (name, known) in &mut self.known {
            if plan.touches(name) {
                continue;
            }
            let found = now.get(name).unwrap_or_else(|| panic!("{name} is gone {blame}"));
            if strike.killed.is_some() && known.pid == strike.killed {
                (known.pid, known.memory) = (None, None);
            }
            // On a full disk a machine may end, or not resume when space is freed.
            if full && found.pid.is_none() {
                (known.pid, known.memory) = (None, None);
            }
            assert_eq!(found.pid, known.pid, "the machine of {name} {blame}");
            assert_eq!(found.suspended, known.suspended, "{name} has the wrong suspended state {blame}");
        }
        match plan {
            Plan::Create { name } => {
                assert!(!given || now.contains_key(name), "{name} does not exist {blame}");
                if let Some(new) = now.get(name) {
                    self.known.insert(name.clone(), Known::new(vec![NOTHING.to_owned()], None, new.pid));
                }
            }
            Plan::Fork { of, from, name } => {
                assert!(!given || now.contains_key(name), "{name} does not exist {blame}");
                let source = &self.known[of];
                let (disk, memory) = match from.as_ref().map(|from| &source.snapshots[from]) {
                    None => (source.disk.clone(), source.memory.clone()),
                    Some(kept) => (vec![kept.token.clone()], kept.memory.then(|| kept.token.clone())),
                };
                if let Some(new) = now.get(name) {
                    // If the killed machine was the source, its disk was forked without memory.
                    let memory = memory.filter(|_| strike.killed.is_none() && new.pid.is_some());
                    self.known.insert(name.clone(), Known::new(disk, memory, new.pid));
                }
            }
            Plan::Snapshot { of, name, memory } => {
                let there = listed_snapshots(&self.agentiso, of);
                assert!(!given || there.contains_key(name), "the snapshot {name} does not exist {blame}");
                let known = self.known.get_mut(of).unwrap();
                if there.contains_key(name) {
                    let token = known.disk[0].clone();
                    known.snapshots.insert(name.clone(), Kept { token, memory: *memory });
                }
            }
            Plan::RemoveSnapshot { of, name } => {
                let there = listed_snapshots(&self.agentiso, of).contains_key(name);
                assert!(!(given && there), "the snapshot {name} still exists {blame}");
                if !there {
                    self.known.get_mut(of).unwrap().snapshots.remove(name);
                }
            }
            Plan::Restore { of, to, disk_only } => {
                let found = now.get(of).unwrap_or_else(|| panic!("{of} is gone {blame}"));
                let known = self.known.get_mut(of).unwrap();
                let kept = known.snapshots[to].clone();
                let as_before = found.pid == known.pid && found.pid.is_some();
                if given {
                    known.disk = vec![kept.token.clone()];
                    known.memory = (kept.memory && !disk_only && found.pid.is_some()).then_some(kept.token);
                } else if !as_before {
                    known.disk.push(kept.token);
                    known.memory = known.memory.take().filter(|_| found.suspended);
                }
                if known.runs() && strike.killed.is_none() && !full {
                    assert!(found.pid.is_some(), "{of} no longer runs {blame}");
                }
                (known.pid, known.suspended) = (found.pid, found.suspended);
            }
            Plan::Remove { name } => match now.get(name) {
                None => drop(self.known.remove(name)),
                Some(found) => {
                    assert!(!given, "{name} still exists {blame}");
                    let known = self.known.get_mut(name).unwrap();
                    known.memory = known.memory.take().filter(|_| found.pid == known.pid);
                    (known.pid, known.suspended) = (found.pid, found.suspended);
                }
            },
            Plan::Stop { name, .. } if !given && now.get(name).is_some_and(|found| found.pid.is_some()) => {
                // The guest may already have received the request to power off.
                self.agentiso.must(&["stop", "--force", name]);
                let known = self.known.get_mut(name).unwrap();
                (known.pid, known.memory) = (None, None);
            }
            Plan::Stop { name, .. } | Plan::Start { name } | Plan::Suspend { name } => {
                let found = now.get(name).unwrap_or_else(|| panic!("{name} is gone {blame}"));
                let known = self.known.get_mut(name).unwrap();
                if given && strike.killed.is_none() && !full {
                    assert_eq!(found.pid.is_some(), matches!(plan, Plan::Start { .. }), "{name} {blame}");
                    assert_eq!(found.suspended, matches!(plan, Plan::Suspend { .. }), "{name} {blame}");
                }
                // A machine that was resumed or is suspended has its content.
                let resumed = known.suspended && found.pid.is_some();
                let goes_on = found.pid.is_some() && found.pid == known.pid;
                known.memory = known.memory.take().filter(|_| resumed || goes_on || found.suspended);
                (known.pid, known.suspended) = (found.pid, found.suspended);
            }
            Plan::Restart => {}
        }
        let unknown: Vec<_> = now.keys().filter(|name| !self.known.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "unexpected: {unknown:?} {blame}");
        for (name, known) in &self.known {
            let there = listed_snapshots(&self.agentiso, name);
            let must: BTreeMap<_, _> =
                known.snapshots.iter().map(|(name, kept)| (name.clone(), kept.memory)).collect();
            assert_eq!(there, must, "the snapshots of {name} {blame}");
        }
    }

    /// Checks that every running machine responds and has the expected content.
    fn look_at_all(&mut self) {
        for (name, known) in self.known.iter_mut().filter(|(_, known)| known.runs()) {
            let disk = look(&self.agentiso, name, known.memory.as_deref());
            assert!(known.disk.contains(&disk), "{name} holds {disk} instead of {:?}", known.disk);
            known.disk = vec![disk];
        }
    }

    /// Forks every snapshot and checks the fork.
    fn verify_snapshots(&mut self, round: u64) {
        let fork = format!("check{round}");
        for (workspace, name, kept) in self.all_snapshots() {
            self.agentiso.must(&["fork", "--name", &fork, &workspace, &name]);
            self.expect_kept(&fork, &workspace, &name, &kept);
            self.agentiso.must(&["rm", "--force", &fork]);
            leaks::check(self.agentiso.home());
        }
        leaks::check_needed(self.agentiso.home());
    }

    /// Restores every workspace to each of its snapshots.
    fn verify_by_restoring(&mut self) {
        for (workspace, name, kept) in self.all_snapshots() {
            let restored = self.agentiso.must(&["snapshot", "restore", &workspace, &name]);
            if restored["state"] == "stopped" {
                self.agentiso.must(&["start", &workspace]);
            }
            leaks::check(self.agentiso.home());
            self.expect_kept(&workspace, &workspace, &name, &kept);
        }
    }

    fn all_snapshots(&self) -> Vec<(String, String, Kept)> {
        let all = self.known.iter().flat_map(|(workspace, known)| {
            known.snapshots.iter().map(move |(name, kept)| (workspace.clone(), name.clone(), kept.clone()))
        });
        all.collect()
    }

    fn expect_kept(&mut self, machine: &str, workspace: &str, name: &str, kept: &Kept) {
        let disk = look(&self.agentiso, machine, kept.memory.then_some(kept.token.as_str()));
        assert_eq!(disk, kept.token, "the snapshot {name} of {workspace}");
        self.figures.verified += 1;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.agentiso.running_daemon().into_iter().for_each(kill);
        qemus(self.agentiso.home()).into_iter().for_each(kill);
    }
}

/// The content of a running machine's disk. Asserts that its memory contains `memory`.
fn look(agentiso: &Agentiso, name: &str, memory: Option<&str>) -> String {
    let Some(memory) = memory else { return on_disk(agentiso, name) };
    let (disk, found) = on_disk_and_in_memory(agentiso, name);
    assert_eq!(found, memory, "in the memory of {name}");
    disk
}
