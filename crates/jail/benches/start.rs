//! How long it takes to run `true` in a sandbox: alone, with bubblewrap, with this crate, and in a session. Prints medians.
//! `cargo bench -p agentiso-jail`; needs `bwrap` in the PATH.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark may panic, and prints its figures"
)]

use std::process;
use std::time::{Duration, Instant};

use agentiso_jail::{Bind, Command, Environment, Launcher, Spec, Stdio, Tmpfs};

const ROUNDS: usize = 200;
const HELPER: &str = env!("CARGO_BIN_EXE_agentiso-jail");

/// What bubblewrap does that is closest to [`Spec::new`].
const BWRAP: &[&str] = &[
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--ro-bind",
    "/etc",
    "/etc",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/home",
    "--clearenv",
    "/usr/bin/true",
];

type Measured = Box<dyn FnMut()>;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let workspace = std::env::temp_dir().canonicalize().expect("a temporary directory");
    let spec = Spec::new().mount(Bind::writable(&workspace, "/workspace"));
    let few = Spec { mounts: vec![Tmpfs::new("/tmp").into()], ..spec.clone() };
    let truth =
        || Command::new(["/usr/bin/true"]).env(Environment::standard(Spec::HOME, std::env::vars_os()));
    let one = move |spec: Spec| -> Measured {
        let launcher = Launcher::with_helper(HELPER);
        Box::new(move || {
            let mut running = launcher.run(&spec, &truth(), Stdio::null().expect("null")).expect("a sandbox");
            running.wait().expect("an end");
        })
    };
    let session = Launcher::with_helper(HELPER).open(&spec).expect("a session");
    let mut all: Vec<(&str, Measured)> = vec![
        ("true alone", Box::new(|| run("/usr/bin/true", &[]))),
        ("bwrap", Box::new(|| run("bwrap", BWRAP))),
        ("sandbox", one(spec)),
        ("sandbox without /proc, /dev and home", one(few)),
        (
            "command in a session",
            Box::new(move || {
                let mut running = session.exec(&truth(), Stdio::null().expect("null")).expect("a command");
                running.wait().expect("an end");
            }),
        ),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); all.len()];
    // In turn, so that whatever else the machine does hits all of them.
    for _ in 0..ROUNDS {
        for ((_, measured), times) in all.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            measured();
            times.push(begun.elapsed());
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| milliseconds(times, 50)).collect();
    println!("{:<40} {:>9} {:>9} {:>9} {:>10}", "", "median", "10 %", "90 %", "of bwrap");
    for (((name, _), times), median) in all.iter().zip(&mut times).zip(&medians) {
        let (low, high) = (milliseconds(times, 10), milliseconds(times, 90));
        println!("{name:<40} {median:>6.2} ms {low:>6.2} ms {high:>6.2} ms {:>10.2}", median / medians[1]);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = process::Command::new(program).args(arguments).status().expect(program);
    assert!(status.success(), "{program}: {status}");
}

fn milliseconds(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[times.len() * percent / 100].as_secs_f64() * 1000.0
}
