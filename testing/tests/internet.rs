//! The test internet itself: what a program in the host's namespace sees of it.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

use std::process::{Command, Output};

use agentiso_testing::internet::Internet;
use agentiso_testing::internet::places::{GIT, HOST, METADATA, NAMESERVER, WEB};

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {complaint}");
    output
}

#[test]
fn the_host_reaches_every_server_by_name_and_the_servers_see_it() {
    let internet = Internet::new();
    let curl = |user, options: &[&str], url: &str| {
        let mut command = internet.command(user, "curl");
        command.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(internet.authority());
        String::from_utf8(run(command.args(options).arg(url)).stdout).unwrap()
    };
    // An ordinary user must be able to read the authority's certificate.
    run(Command::new("chmod").arg("-R").arg("a+rX").arg(internet.authority().parent().unwrap()));
    assert_eq!(curl(0, &["--http2"], "https://web.example/a?b"), format!("hello from {WEB}\n"));
    assert_eq!(curl(65534, &["--http1.1"], "https://alias.example/"), format!("hello from {WEB}\n"));
    assert_eq!(curl(0, &[], &format!("http://{METADATA}/latest")), format!("hello from {METADATA}\n"));
    assert_eq!(curl(0, &[], "http://web.example/bytes/100000").len(), 100_000);

    let seen = internet.arrivals().requests_to(WEB);
    let versions: Vec<_> =
        seen.iter().map(|request| (request.protocol.as_str(), request.host.as_str())).collect();
    assert_eq!(
        versions,
        [("HTTP/2.0", "web.example"), ("HTTP/1.1", "alias.example"), ("HTTP/1.1", "web.example")]
    );
    assert_eq!(seen[0].path, "/a?b");
    assert_eq!(seen[0].tls_name.as_deref(), Some("web.example"));
    assert_eq!(seen[0].from.ip(), HOST);
    assert!(internet.arrivals().requests_to(NAMESERVER).iter().any(|query| query.host == "web.example"));
    assert!(internet.arrivals().was_sent(METADATA));

    let packages = curl(0, &[], "http://packages.example/apt/Packages");
    assert!(packages.starts_with("Package: greeting\n"), "{packages}");
    assert!(
        curl(0, &[], "http://packages.example/simple/greeting/").contains("greeting-1.0-py3-none-any.whl")
    );
    let wheel = tempfile::tempdir().unwrap();
    let file = wheel.path().join("greeting.whl");
    let url = "http://packages.example/simple/greeting/greeting-1.0-py3-none-any.whl";
    curl(0, &["--output", file.to_str().unwrap()], url);
    let listed = run(Command::new("python3").args(["-m", "zipfile", "-t"]).arg(&file));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("Done testing"), "{listed:?}");
}

#[test]
fn a_repository_is_cloned_and_pushed_to() {
    let internet = Internet::new();
    let work = tempfile::tempdir().unwrap();
    let clone = work.path().join("clone");
    let git = |arguments: &[&str]| {
        let mut command = internet.command(0, "git");
        command.args(["-c", "user.name=Test", "-c", "user.email=test@web.example"]);
        run(command.env("GIT_SSL_CAINFO", internet.authority()).args(arguments))
    };
    let place = clone.to_str().unwrap();
    git(&["clone", "--quiet", "https://git.example/git/project.git", place]);
    assert_eq!(std::fs::read_to_string(clone.join("README")).unwrap(), "hello\n");
    git(&["-C", place, "commit", "--quiet", "--allow-empty", "--message", "another"]);
    git(&["-C", place, "push", "--quiet"]);
    let pushed = internet.arrivals().requests_to(GIT);
    assert!(pushed.iter().any(|request| request.path.ends_with("git-receive-pack")), "{pushed:?}");
}

#[test]
fn nothing_of_it_is_left_and_no_packet_leaves_it() {
    let mut internet = Internet::new();
    let namespace = internet.host().path();
    // Its only links are loopback and the wire between the two.
    for place in [internet.host(), internet.outside()] {
        let links = place.run("ip", &["-brief", "link"]);
        let names: Vec<_> = links.lines().filter_map(|line| line.split(['@', ' ']).next()).collect();
        assert_eq!(names, ["lo", "uplink"], "{links}");
    }
    assert!(namespace.exists());
    internet = Internet::new();
    let second = internet.host().path();
    drop(internet);
    assert!(!second.exists(), "the descriptor of the namespace is closed");
}
