//! `avfs session`: sandboxes that stay.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use agentiso_core::{Code, Failure};
use agentiso_proxy::{Run, SessionInfo, Sessions, parse_timeout, refused, serve_session};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Context;
use super::proxy::{ExecFlags, Shower, show};
use crate::ui::{Table, age_since};

/// How this program is started to serve a session.
const SERVE: &[&str] = &["serve-session"];

/// Commands of `session`.
#[derive(Debug, Subcommand)]
pub enum SessionVerb {
    /// Start a sandbox that stays
    Start(Start),
    /// Run a command in it, and answer with one envelope
    Exec(Exec),
    /// List sandboxes that stay
    #[command(name = "ls", alias = "list")]
    List(List),
    /// End a sandbox with everything that runs in it
    End(End),
}

/// Flags of `session start`.
#[derive(Args, Debug)]
#[command(
    after_help = "Commands in a session start faster than with proxy exec, and pass the same policy. A session has no \
                  network. It ends by itself if it is not used.\n\nExample:\n  avfs --vault task-1 session start"
)]
pub struct Start {
    /// Its commands cannot change the vault
    #[arg(long)]
    pub readonly: bool,
    /// End it if it is not used for this time
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub idle: String,
}

/// Flags of `session exec`.
#[derive(Args, Debug)]
#[command(after_help = "The envelope and the exit codes are those of proxy exec.\n\nExample:\n  \
                  avfs --json session exec 0190ae51-... -- cargo test")]
pub struct Exec {
    /// The session
    pub session: String,
    /// What runs have.
    #[command(flatten)]
    pub flags: ExecFlags,
}

/// Flags of `session ls`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs session ls")]
pub struct List {}

/// Flags of `session end`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs session end 0190ae51-...")]
pub struct End {
    /// The session
    pub session: String,
}

/// Flags of `serve-session`.
#[derive(Args, Debug)]
pub struct ServeSession {
    /// The id of the session
    pub id: String,
    /// The id of the vault
    pub vault_id: String,
    /// Seconds
    pub idle: u64,
    /// Whether it cannot change the vault
    #[arg(long)]
    pub readonly: bool,
}

/// A session.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SessionShown {
    /// Its id.
    session: String,
    vault: String,
    readonly: bool,
    /// The directory at which its commands see the vault.
    mountpoint: String,
    /// Its server.
    pid: u32,
    created_at: String,
    /// `running` or `ended`.
    state: String,
}

/// Sessions that run, oldest first.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct SessionList(Vec<SessionShown>);

/// Performs a command of `session`.
pub fn session(context: &Context, verb: SessionVerb) -> Result<u8, Failure> {
    let sessions = Sessions::new(&context.places);
    match verb {
        SessionVerb::Start(flags) => start(context, &sessions, &flags),
        SessionVerb::Exec(flags) => exec(context, &sessions, flags),
        SessionVerb::List(List {}) => list(context, &sessions),
        SessionVerb::End(flags) => end(context, &sessions, &flags),
    }
}

fn start(context: &Context, sessions: &Sessions<'_>, flags: &Start) -> Result<u8, Failure> {
    let vault = context.vaults()?.info(&context.vault()?)?;
    let idle = parse_timeout(&flags.idle)?.unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let started = sessions.start(SERVE, &vault.id.to_string(), flags.readonly, idle)?;
    let started = shown(started, "running");
    context.shown.result(&started, |out| writeln!(out, "{}", started.session))?;
    Ok(0)
}

fn exec(context: &Context, sessions: &Sessions<'_>, flags: Exec) -> Result<u8, Failure> {
    let (run, checked) = flags.flags.request(None);
    let shower = Shower::new(context.shown, run.stream);
    let envelope = checked
        .map_err(Failure::from)
        .and_then(|()| stdin(&run))
        .and_then(|stdin| sessions.exec(&flags.session, &run, stdin, &shower));
    match envelope {
        Ok(envelope) => show(context.shown, &envelope),
        Err(failure) => show(context.shown, &refused(&run, &failure)),
    }
}

/// The standard input of this process, if the command reads it.
fn stdin(run: &Run) -> Result<Option<File>, Failure> {
    if !run.stdin {
        return Ok(None);
    }
    io::stdin().as_fd().try_clone_to_owned().map(|stdin| Some(stdin.into())).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not pass on standard input: {error}"))
    })
}

fn list(context: &Context, sessions: &Sessions<'_>) -> Result<u8, Failure> {
    let list = SessionList(sessions.list()?.into_iter().map(|one| shown(one, "running")).collect());
    context.shown.result(&list, |out| {
        let mut table = Table::new(["SESSION", "VAULT", "PID", "STARTED"]);
        for one in &list.0 {
            table.row([
                one.session.clone(),
                one.vault.clone(),
                one.pid.to_string(),
                age_since(&one.created_at),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}

fn end(context: &Context, sessions: &Sessions<'_>, flags: &End) -> Result<u8, Failure> {
    let found = sessions.list()?.into_iter().find(|one| one.id == flags.session);
    sessions.end(&flags.session)?;
    let Some(found) = found else {
        return Err(Failure::new(Code::Internal, "the session is not recorded"));
    };
    let ended = shown(found, "ended");
    context.shown.result(&ended, |out| writeln!(out, "Ended {}", ended.session))?;
    Ok(0)
}

fn shown(one: SessionInfo, state: &str) -> SessionShown {
    SessionShown {
        session: one.id,
        vault: one.vault_name,
        readonly: one.readonly,
        mountpoint: one.mountpoint,
        pid: one.pid,
        created_at: one.created_at,
        state: state.to_owned(),
    }
}

/// Serves a session until it ends.
pub fn serve(context: &Context, flags: ServeSession) -> Result<u8, Failure> {
    // A session outlives the terminal and the process that started it.
    rustix::process::setsid().map_err(|error| {
        Failure::new(Code::Internal, format!("could not leave the session of the caller: {error}"))
    })?;
    // Nor does it keep the caller's directory busy.
    std::env::set_current_dir("/").map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not leave the present directory: {error}"))
    })?;
    let idle = Duration::from_secs(flags.idle);
    serve_session(&context.boundary()?, &flags.id, &flags.vault_id, flags.readonly, idle)?;
    Ok(0)
}
