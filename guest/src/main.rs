//! `agentiso-guest`: PID 1 of a guest or, with `--serve-fd N`, an ordinary process that serves a host on a descriptor.

use std::{env, os::fd::RawFd, process::ExitCode};

fn main() -> ExitCode {
    if std::process::id() == 1 {
        agentiso_guest::run_as_init()
    }
    match served_fd() {
        Some(fd) => agentiso_guest::serve_fd(fd),
        None => ExitCode::from(2),
    }
}

fn served_fd() -> Option<RawFd> {
    let mut arguments = env::args().skip(1);
    (arguments.next()? == "--serve-fd").then_some(())?;
    let fd = arguments.next()?.parse().ok()?;
    arguments.next().is_none().then_some(fd)
}
