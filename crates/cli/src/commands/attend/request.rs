//! From flags to what is asked of a machine.

use std::os::unix::ffi::OsStringExt;

use agentiso_core::{Code, Failure};
use agentiso_runtime::OciDefaults;
use agentiso_runtime::guest::{Exec, User};

use crate::args::Command;
use crate::output::Output;
use crate::terminal;

/// A name and a value, as the kernel knows them.
type Variable = (Vec<u8>, Vec<u8>);

/// The command the flags ask for.
pub fn command(flags: &Command, output: Output) -> Result<Exec, Failure> {
    if flags.tty && output.json {
        return Err(invalid("--tty and --json cannot be used together"));
    }
    let env = flags.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    if flags.timeout == Some(0) {
        return Err(invalid("--timeout must be at least 1 second"));
    }
    let tty = flags.tty.then(terminal::size);
    Ok(Exec {
        argv: flags.words.iter().map(|word| word.clone().into_vec()).collect(),
        env: env.into_iter().flatten().collect(),
        workdir: flags.workdir.as_ref().map(|dir| dir.clone().into_bytes()),
        user: flags.user.as_deref().map(user).transpose()?,
        stdin: true,
        tty,
        timeout_ms: flags.timeout.map(|seconds| seconds.saturating_mul(1000)),
    })
}

/// Fills in what the flags left open and the image has an opinion on.
pub fn with_image_defaults(mut exec: Exec, defaults: &OciDefaults) -> Exec {
    let from_image = defaults.env.iter().filter_map(|text| text.split_once('='));
    let mut env: Vec<_> = from_image.map(|(name, value)| (name.into(), value.into())).collect();
    env.append(&mut exec.env);
    exec.env = env;
    if exec.workdir.is_none() {
        exec.workdir =
            defaults.workdir.as_ref().filter(|dir| !dir.is_empty()).map(|dir| dir.clone().into_bytes());
    }
    if exec.user.is_none() {
        exec.user = defaults.user.as_deref().filter(|name| !name.is_empty()).and_then(|name| user(name).ok());
    }
    exec
}

/// `NAME=VALUE`, or `NAME` alone for the value it has here; a variable that is not set here is left out.
fn variable(text: &str) -> Result<Option<Variable>, Failure> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.as_bytes().to_vec())),
        None => (text, std::env::var_os(text).map(OsStringExt::into_vec)),
    };
    if name.is_empty() || name.contains('\0') {
        return Err(invalid("--env wants NAME=VALUE or NAME").with_remedy("for example --env EDITOR=vi"));
    }
    Ok(value.map(|value| (name.as_bytes().to_vec(), value)))
}

/// A user name, or numbers; a group name behind a user name is the user's own affair and ignored.
fn user(text: &str) -> Result<User, Failure> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    match (user.parse::<u32>(), group.parse::<u32>()) {
        (Ok(uid), Ok(gid)) => Ok(User::Id { uid, gid }),
        (Ok(uid), Err(_)) if group.is_empty() => Ok(User::Id { uid, gid: uid }),
        (Err(_), _) if !user.is_empty() && group.is_empty() => Ok(User::Name(user.to_owned())),
        _ => Err(invalid("--user wants a name, or UID[:GID] in numbers")),
    }
}

fn invalid(message: &str) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        assert_eq!(user("alice").unwrap(), User::Name("alice".to_owned()));
        assert_eq!(user("1000").unwrap(), User::Id { uid: 1000, gid: 1000 });
        assert_eq!(user("1000:50").unwrap(), User::Id { uid: 1000, gid: 50 });
        for bad in ["", ":", "1000:staff", "alice:staff", ":5"] {
            assert!(user(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn variables_may_hold_equal_signs_and_need_a_name() {
        assert_eq!(variable("A=b=c").unwrap(), Some((b"A".to_vec(), b"b=c".to_vec())));
        assert_eq!(variable("NO_SUCH_VARIABLE_HERE").unwrap(), None);
        assert!(variable("=x").is_err());
    }

    #[test]
    fn flags_win_over_the_image() {
        let image = OciDefaults {
            env: vec!["A=image".to_owned(), "B=image".to_owned()],
            workdir: Some("/srv".to_owned()),
            user: Some("www".to_owned()),
            cmd: Vec::new(),
        };
        let flags = Exec { env: vec![(b"A".to_vec(), b"flag".to_vec())], ..Exec::default() };
        let exec = with_image_defaults(flags, &image);
        assert_eq!(exec.env.last().unwrap().1, b"flag");
        assert_eq!(exec.env.len(), 3);
        assert_eq!(exec.workdir.unwrap(), b"/srv");
        assert_eq!(exec.user, Some(User::Name("www".to_owned())));
    }
}
