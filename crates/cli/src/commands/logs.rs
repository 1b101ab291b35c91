//! `agentiso logs`: what a machine printed on its console.

use std::io::{self, Write};
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{LogType, WorkspaceLogs};

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, harmless};

/// Between two looks at a console that is followed.
const EVERY: Duration = Duration::from_secs(1);
/// Lines of a look while following: more than a machine prints meanwhile.
const WINDOW: u32 = 10_000;
/// How much of what was seen last is looked for in what is seen next.
const MARK: usize = 4096;

/// Shows the console.
pub async fn logs(here: &Paths, flags: args::Logs, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let request = |lines| WorkspaceLogs {
        workspace_id: flags.workspace.clone(),
        log_type: Some(LogType::Console),
        max_lines: Some(lines),
    };
    let logged = daemon.ask("Still looking", &request(flags.lines)).await?;
    let shown = logged.console.clone().unwrap_or_default();
    output.result(&logged, |out| print(out, &shown))?;
    if !flags.follow {
        return Ok(0);
    }
    let mut seen = daemon.ask_quietly(&request(WINDOW)).await?.console.unwrap_or_default();
    print_all(news(&shown, &seen))?;
    loop {
        tokio::time::sleep(EVERY).await;
        let now = daemon.ask_quietly(&request(WINDOW)).await?.console.unwrap_or_default();
        print_all(news(&seen, &now))?;
        seen = now;
    }
}

fn print_all(text: &str) -> Result<(), Failure> {
    Output { json: false, quiet: true }.result(&(), |out| print(out, text))
}

fn print(out: &mut Stream, text: &str) -> io::Result<()> {
    // A machine may print anything, escape sequences for terminals too.
    if out.is_terminal() {
        write!(out, "{}", harmless(&text.replace('\r', "")))
    } else {
        write!(out, "{text}")
    }
}

/// What is in `now` and was not in `before`: all of it if the machine is another.
fn news<'a>(before: &str, now: &'a str) -> &'a str {
    if let Some(rest) = now.strip_prefix(before) {
        return rest;
    }
    let from = before.len().saturating_sub(MARK);
    let from = (from..=before.len()).find(|&at| before.is_char_boundary(at)).unwrap_or(before.len());
    let mark = &before[from..];
    match now.rfind(mark) {
        Some(at) if !mark.is_empty() => &now[at + mark.len()..],
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_shown_though_the_beginning_is_lost() {
        assert_eq!(news("", "a\n"), "a\n");
        assert_eq!(news("a\nb\n", "a\nb\nc\n"), "c\n");
        assert_eq!(news("b\nc\n", "a\nb\nc\nd\n"), "d\n");
        let long = "ü".repeat(MARK);
        assert_eq!(news(&format!("lost{long}"), &format!("{long}new")), "new");
        assert_eq!(news("old machine\n", "new machine\n"), "new machine\n");
    }
}
