//! A command as a client requests it, and the request that is sent to the machine.
//!
//! Everything here is pure. `launch.rs` starts what this module describes.

use agentiso_core::ports::host::OciDefaults;
use agentiso_core::ports::link::{Exec, User};
use agentiso_core::wire::ExecSpec;
use agentiso_core::{Code, Failure};

use crate::actions::variable_name;

/// The most bytes of a command line, or of all arguments of a command.
pub(crate) const LONGEST_COMMAND: usize = 2 << 20;
/// A login shell for a machine whose shells are not known.
const ANY_SHELL: [&str; 3] =
    ["/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi"];

/// A shell that runs command lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shell {
    /// `/bin/bash`, which agents write for.
    Bash,
    /// `/bin/sh`, where there is no bash.
    Sh,
}

impl Shell {
    /// Its path in the guest.
    pub fn path(self) -> &'static str {
        match self {
            Self::Bash => "/bin/bash",
            Self::Sh => "/bin/sh",
        }
    }
}

/// What a command runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Program {
    /// A line for the workspace's shell.
    Line(String),
    /// A POSIX script of our own, for `/bin/sh`.
    Script(String),
    /// A program and its arguments.
    Words(Vec<Vec<u8>>),
    /// The workspace's shell as a login shell.
    Login,
}

/// A command before it is adapted to the workspace it runs in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Command {
    pub program: Program,
    /// Variables on top of the workspace's.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The image's working directory, else the user's home, if absent.
    pub workdir: Option<Vec<u8>>,
    /// The image's user, else root, if absent.
    pub user: Option<User>,
    pub stdin: bool,
    pub tty: Option<(u16, u16)>,
    pub timeout_ms: Option<u64>,
}

impl Command {
    /// A command with nothing but a program.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            env: Vec::new(),
            workdir: None,
            user: None,
            stdin: false,
            tty: None,
            timeout_ms: None,
        }
    }

    /// The command that a client requests.
    pub fn of(spec: ExecSpec) -> Result<Self, Failure> {
        for name in spec.env.keys() {
            variable_name(name)?;
        }
        let env = spec.env.into_iter().map(|(name, value)| (name.into_bytes(), value.as_bytes().to_vec()));
        Ok(Self {
            program: match spec.argv.is_empty() {
                true => Program::Login,
                false => Program::Words(spec.argv.iter().map(|word| word.as_bytes().to_vec()).collect()),
            },
            env: env.collect(),
            workdir: spec.workdir.map(String::into_bytes),
            user: spec.user.as_deref().map(user).transpose()?,
            stdin: spec.stdin,
            tty: spec.tty,
            timeout_ms: spec.timeout_ms,
        })
    }

    /// Checks what can be checked without the machine.
    pub fn check(&self) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::new(Code::InvalidArgument, message));
        let (bytes, zero) = match &self.program {
            Program::Line(line) if line.trim().is_empty() => return refuse("command is empty".to_owned()),
            Program::Line(text) | Program::Script(text) => (text.len(), text.contains('\0')),
            Program::Words(words) => {
                (words.iter().map(Vec::len).sum(), words.iter().any(|word| word.contains(&0)))
            }
            Program::Login => (0, false),
        };
        if zero {
            return refuse("the command contains a zero byte".to_owned());
        }
        if bytes > LONGEST_COMMAND {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("the command has {bytes} bytes; the limit is {LONGEST_COMMAND}"),
            )
            .with_remedy("write a script into the workspace and run that"));
        }
        if self.env.iter().any(|(name, value)| name.contains(&0) || value.contains(&0)) {
            return refuse("a variable contains a zero byte".to_owned());
        }
        Ok(())
    }

    /// Whether the workspace's shell runs it.
    pub fn uses_shell(&self) -> bool {
        matches!(self.program, Program::Line(_) | Program::Login)
    }

    /// The request to the machine, with this shell for what needs one.
    pub fn with_shell(&self, shell: Shell) -> Exec {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let argv = match &self.program {
            Program::Line(line) => words(&[shell.path(), "-c", line]),
            Program::Script(script) => words(&[Shell::Sh.path(), "-c", script]),
            Program::Words(words) => words.clone(),
            Program::Login => words(&[shell.path(), "-l"]),
        };
        Exec {
            argv,
            env: self.env.clone(),
            workdir: self.workdir.clone(),
            user: self.user.clone(),
            stdin: self.stdin,
            tty: self.tty,
            timeout_ms: self.timeout_ms,
        }
    }
}

/// The request to a machine that is not a workspace's.
pub fn exec_of(spec: ExecSpec) -> Result<Exec, Failure> {
    let mut command = Command::of(spec)?;
    command.check()?;
    if command.program == Program::Login {
        command.program = Program::Words(ANY_SHELL.map(|word| word.as_bytes().to_vec()).to_vec());
    }
    Ok(command.with_shell(Shell::Sh))
}

/// Fills in the image's defaults where the caller gave nothing. `own` names the workspace's own variables, which take
/// precedence over the image's.
pub fn with_image_defaults(mut exec: Exec, defaults: &OciDefaults, own: &[String]) -> Exec {
    let from_image = defaults.env.iter().filter_map(|text| text.split_once('='));
    let wanted = from_image.filter(|(name, _)| !own.iter().any(|own| own == name));
    let mut env: Vec<_> = wanted.map(|(name, value)| (name.into(), value.into())).collect();
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

/// A user by name, or by numbers.
pub(crate) fn user(text: &str) -> Result<User, Failure> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    match (user.parse::<u32>(), group.parse::<u32>()) {
        (Ok(uid), Ok(gid)) => Ok(User::Id { uid, gid }),
        (Ok(uid), Err(_)) if group.is_empty() => Ok(User::Id { uid, gid: uid }),
        (Err(_), _) if !user.is_empty() && group.is_empty() => Ok(User::Name(user.to_owned())),
        _ => Err(Failure::new(Code::InvalidArgument, format!("{text:?} is not a user"))
            .with_remedy("give a user name, or UID[:GID] in numbers, for example 1000:1000")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn words_that_are_not_text_reach_the_machine_and_reserved_variables_do_not() {
        let argv = vec![b"echo".to_vec().into(), vec![0xff, 1].into()];
        let exec = exec_of(ExecSpec { argv, ..Default::default() }).unwrap();
        assert_eq!(exec.argv, [b"echo".to_vec(), vec![0xff, 1]]);
        for name in ["LD_PRELOAD", "PATH", "a b", ""] {
            let env = BTreeMap::from([(name.to_owned(), b"x".to_vec().into())]);
            let refused = Command::of(ExecSpec { env, ..Default::default() }).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{name}");
        }
        let zero = ExecSpec { argv: vec![vec![b'a', 0].into()], ..Default::default() };
        assert_eq!(exec_of(zero).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_line_goes_to_the_workspaces_shell_and_our_own_scripts_to_sh() {
        let argv = |program, shell| Command::new(program).with_shell(shell).argv;
        let line = || Program::Line("ls".to_owned());
        assert_eq!(argv(line(), Shell::Bash), [&b"/bin/bash"[..], b"-c", b"ls"]);
        assert_eq!(argv(line(), Shell::Sh), [&b"/bin/sh"[..], b"-c", b"ls"]);
        assert_eq!(argv(Program::Script("x".to_owned()), Shell::Bash), [&b"/bin/sh"[..], b"-c", b"x"]);
        assert_eq!(argv(Program::Login, Shell::Bash), [&b"/bin/bash"[..], b"-l"]);
        assert_eq!(argv(Program::Words(vec![b"ls".to_vec()]), Shell::Bash), [b"ls"]);
    }

    #[test]
    fn commands_that_no_machine_could_run_are_refused() {
        let check = |program| Command::new(program).check();
        check(Program::Line("a".repeat(LONGEST_COMMAND))).unwrap();
        check(Program::Words(vec![vec![b'a'; 1 << 20]; 2])).unwrap();
        for bad in [
            Program::Line(" \n".to_owned()),
            Program::Line("a\0b".to_owned()),
            Program::Line("a".repeat(LONGEST_COMMAND + 1)),
            Program::Words(vec![vec![b'a'; 1 << 20]; 3]),
        ] {
            assert_eq!(check(bad).unwrap_err().code(), Code::InvalidArgument);
        }
        let env = vec![(b"A".to_vec(), vec![0])];
        assert!(Command { env, ..Command::new(Program::Login) }.check().is_err());
    }

    #[test]
    fn callers_and_workspaces_win_over_the_image() {
        let image = OciDefaults {
            env: vec!["A=image".to_owned(), "B=image".to_owned(), "C=image".to_owned()],
            workdir: Some("/srv".to_owned()),
            user: Some("www".to_owned()),
            cmd: Vec::new(),
        };
        let asked = Exec { env: vec![(b"A".to_vec(), b"flag".to_vec())], ..Exec::default() };
        let exec = with_image_defaults(asked, &image, &["C".to_owned()]);
        assert_eq!(exec.env.last().unwrap().1, b"flag");
        assert_eq!(exec.env.len(), 3);
        assert_eq!(exec.workdir.unwrap(), b"/srv");
        assert_eq!(exec.user, Some(User::Name("www".to_owned())));
    }
}
