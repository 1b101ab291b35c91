//! The machine's environment.

use agentiso_proto::{
    ErrorKind, Exec, Inherit, JobRead, JobWait, MAX_VARIABLES, MAX_VARIABLES_BYTES, Request, Response,
};

use crate::host::{Heard, Host, shell};

fn set(host: &mut Host, changes: &[(&str, Option<&str>)]) -> Heard {
    let change =
        |&(name, value): &(&str, Option<&str>)| (name.to_owned(), value.map(|value| value.to_owned().into()));
    host.call(&Request::SetEnv { changes: changes.iter().map(change).collect() })
}

fn assert_set(heard: &Heard, count: u32) {
    assert_eq!(heard.last, Some(Response::EnvSet { variables: count }));
}

fn environment(host: &mut Host) -> Vec<(String, String)> {
    match host.call(&Request::GetEnv).last {
        Some(Response::Env(variables)) => {
            variables.into_iter().map(|(name, value)| (name, value.into_string())).collect()
        }
        other => panic!("no environment: {other:?}"),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn later_commands_and_jobs_get_the_machine_variables_and_may_override_them() {
    let mut host = Host::start();
    assert_set(&set(&mut host, &[("TOKEN", Some("secret")), ("LANG", Some("de")), ("GONE", Some("x"))]), 3);
    assert_set(&set(&mut host, &[("GONE", None), ("NEVER", None)]), 2);
    host.hello(Inherit::Keep);
    let print = shell("printf '%s|' \"$TOKEN\" \"$LANG\" \"${GONE-none}\"");
    assert_eq!(host.exec(print.clone()).stdout, b"secret|de|none|");
    let own = Exec { env: vec![(b"TOKEN".to_vec(), b"own".to_vec())], ..print.clone() };
    assert_eq!(host.exec(own).stdout, b"own|de|none|");
    let Some(Response::JobStarted { id }) = host.call(&Request::StartJob(print)).last else { panic!() };
    let read = JobRead { id, max: 100, wait: JobWait::Exit, wait_ms: 600_000, ..JobRead::default() };
    assert_eq!(host.call(&Request::ReadJob(read)).stdout, b"secret|de|none|");
    assert_eq!(environment(&mut host), pairs(&[("LANG", "de"), ("TOKEN", "secret")]));
}

#[test]
fn an_invalid_request_changes_nothing_and_reveals_no_value() {
    let mut host = Host::start();
    assert_set(&set(&mut host, &[("A", Some("1"))]), 1);
    for name in ["PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "", "1A", "A-B", "A=B"] {
        for value in [Some("hunter2"), None] {
            let heard = set(&mut host, &[("A", Some("hunter2")), ("B", Some("hunter2")), (name, value)]);
            assert_eq!(heard.error(), ErrorKind::Invalid, "{name}");
            assert!(!format!("{:?}", heard.last).contains("hunter2"));
        }
    }
    let heard = set(&mut host, &[("B", Some("hunter2\0"))]);
    assert_eq!(heard.error(), ErrorKind::Invalid);
    assert!(!format!("{:?}", heard.last).contains("hunter2"));
    assert_eq!(environment(&mut host), pairs(&[("A", "1")]));
}

#[test]
fn the_number_and_size_of_variables_are_limited() {
    let mut host = Host::start();
    let names: Vec<String> = (0..=MAX_VARIABLES).map(|number| format!("V{number}")).collect();
    let all: Vec<(&str, Option<&str>)> = names.iter().map(|name| (name.as_str(), Some(""))).collect();
    assert_eq!(set(&mut host, &all).error(), ErrorKind::Invalid);
    assert_set(&set(&mut host, &all[1..]), MAX_VARIABLES as u32);
    assert_eq!(set(&mut host, &all[..1]).error(), ErrorKind::Invalid);
    // Removing one makes room for another.
    assert_set(&set(&mut host, &[(&names[1], None), (&names[0], Some("x"))]), MAX_VARIABLES as u32);
    let removed: Vec<(&str, Option<&str>)> = names.iter().map(|name| (name.as_str(), None)).collect();
    assert_set(&set(&mut host, &removed), 0);
    let longest = "x".repeat(MAX_VARIABLES_BYTES - 1);
    assert_set(&set(&mut host, &[("A", Some(&longest))]), 1);
    assert_eq!(environment(&mut host)[0].1.len(), longest.len());
    assert_eq!(set(&mut host, &[("B", Some(""))]).error(), ErrorKind::Invalid);
}
