//! Limits of processes, memory and files.

use agentiso_jail::{End, Measure, State};

use crate::place::{Place, launcher, run, sh};

as_everyone! {
    fn limits_of_each_process_hold() {
        let place = Place::new();
        let mut spec = place.spec();
        spec.limits.file_size = Some(1 << 20);
        spec.limits.open_files = Some(64);
        let output = run(&spec, &sh("ulimit -n; ulimit -c; head -c 3000000 /dev/zero > big"));
        assert_eq!(output.stdout, "64\n0\n");
        assert_ne!(output.exit.end, End::Code(0));
        assert_eq!(std::fs::metadata(place.workspace().join("big")).unwrap().len(), 1 << 20);
        spec.limits.cpu_seconds = Some(1);
        assert_eq!(run(&spec, &sh("exec perl -e 'while (1) {}'")).exit.end, End::Signal(libc::SIGKILL));
    }
}

as_everyone! {
    fn the_number_of_processes_is_limited() {
        let place = Place::new();
        let mut spec = place.spec();
        spec.limits.processes = Some(50);
        let script = "perl -e 'my $n = 0; while ($n < 5000 and defined(my $p = fork)) { if (!$p) { sleep 100; exit } $n++ } print $n'";
        let started: u32 = run(&spec, &sh(script)).text().parse().unwrap();
        assert!((20..=400).contains(&started), "{started}");
        let enforcement = launcher().probe(&spec).unwrap();
        assert_eq!(enforcement.get(Measure::ProcessLimit).unwrap().state, State::Enforced);
    }
}

as_everyone! {
    fn memory_is_limited() {
        let place = Place::new();
        let mut spec = place.spec();
        spec.limits.memory = Some(64 << 20);
        let output = run(&spec, &sh("perl -e 'my $x = \"x\" x 200_000_000; print length $x'"));
        assert_ne!(output.exit.end, End::Code(0), "{output:?}");
        let measure = launcher().probe(&spec).unwrap().get(Measure::MemoryLimit).unwrap().clone();
        match measure.detail.as_str() {
            "cgroup" => assert!(output.exit.oom_killed, "{output:?}"),
            _ => assert_eq!(measure.state, State::Degraded),
        }
        assert_eq!(run(&spec, &sh("echo small")).text(), "small");
    }
}
