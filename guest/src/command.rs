//! Prepares a command: its arguments, environment, working directory and the paths to try for its program.

use std::ffi::CString;

use agentiso_proto::Exec;

use crate::{
    environment::Variables,
    error::{Outcome, invalid, shown},
    identity::Identity,
    running::MARKER,
};

/// The default `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A command that is ready to start.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    /// Paths to try for the program, in this order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) workdir: CString,
    /// Use `/` if the working directory does not exist: the caller did not choose it explicitly.
    pub(crate) workdir_is_default: bool,
}

/// Resolves a request into a command, for this user and with these machine variables.
pub(crate) fn prepare(
    exec: &Exec,
    machine: &Variables,
    identity: &Identity,
    marker: &str,
) -> Outcome<Command> {
    let program = exec.argv.first().ok_or_else(|| invalid("the command is empty"))?;
    if program.is_empty() {
        return Err(invalid("the program name is empty"));
    }
    let argv = exec.argv.iter().map(|argument| c_string(argument, "an argument")).collect::<Outcome<_>>()?;
    let variables = environment(exec, machine, identity, marker)?;
    let path = variables.iter().find(|(name, _)| name == b"PATH").map_or(DEFAULT_PATH, |(_, value)| value);
    let candidates = candidates(program, path)?;
    let workdir = exec.workdir.as_deref().unwrap_or(&identity.home);
    if exec.workdir.is_some() && !workdir.starts_with(b"/") {
        return Err(invalid(format!("the working directory {} is not absolute", shown(workdir))));
    }
    let envp = variables
        .iter()
        .map(|(name, value)| c_string(&[name, &b"="[..], value].concat(), "a variable"))
        .collect::<Outcome<_>>()?;
    Ok(Command {
        argv,
        envp,
        candidates,
        workdir: c_string(workdir, "the working directory")?,
        workdir_is_default: exec.workdir.is_none(),
    })
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Merges the defaults, the machine's variables and the command's own variables; later ones win. The command's own
/// variables may have any name, see [`agentiso_proto::check_name`].
fn environment(exec: &Exec, machine: &Variables, identity: &Identity, marker: &str) -> Outcome<Pairs> {
    let mut variables: Pairs = Vec::new();
    let mut set = |name: &[u8], value: &[u8]| match variables.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value.to_vec(),
        None => variables.push((name.to_vec(), value.to_vec())),
    };
    set(b"HOME", &identity.home);
    set(b"USER", &identity.name);
    set(b"LOGNAME", &identity.name);
    set(b"SHELL", &identity.shell);
    set(b"PATH", DEFAULT_PATH);
    set(b"LANG", b"C.UTF-8");
    if exec.tty.is_some() {
        set(b"TERM", b"xterm-256color");
    }
    for (name, value) in machine {
        set(name.as_bytes(), value.reveal().as_bytes());
    }
    for (name, value) in &exec.env {
        if name.is_empty() || name.contains(&b'=') {
            return Err(invalid(format!("{:?} is not a valid variable name", shown(name))));
        }
        set(name, value);
    }
    set(MARKER.as_bytes(), marker.as_bytes());
    Ok(variables)
}

/// Returns the program itself if it contains a slash (relative to the working directory), otherwise one candidate for
/// each directory in `path`.
fn candidates(program: &[u8], path: &[u8]) -> Outcome<Vec<CString>> {
    if program.contains(&b'/') {
        return Ok(vec![c_string(program, "the program")?]);
    }
    path.split(|&byte| byte == b':')
        .map(|directory| if directory.is_empty() { &b"."[..] } else { directory })
        .map(|directory| c_string(&[directory, b"/", program].concat(), "the program"))
        .collect()
}

fn c_string(bytes: &[u8], what: &str) -> Outcome<CString> {
    CString::new(bytes).map_err(|_| invalid(format!("{what} contains a NUL")))
}

#[cfg(test)]
mod tests {
    use agentiso_proto::ErrorKind;

    use super::*;

    fn root() -> Identity {
        Identity {
            uid: 0,
            gid: 0,
            groups: vec![0],
            name: b"root".to_vec(),
            home: b"/root".to_vec(),
            shell: b"/bin/sh".to_vec(),
        }
    }

    fn variables(command: &Command) -> Vec<&[u8]> {
        command.envp.iter().map(|variable| variable.as_bytes()).collect()
    }

    #[test]
    fn a_command_variable_overrides_the_default_but_not_the_marker() {
        let env = [("HOME", "/x"), ("AGENTISO_EXEC", "forged"), ("A", ""), ("A", "2")];
        let env = env.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let exec = Exec { argv: vec![b"true".to_vec()], env: env.to_vec(), ..Exec::default() };
        let command = prepare(&exec, &Variables::new(), &root(), "mine").unwrap();
        let variables = variables(&command);
        assert!(variables.contains(&&b"HOME=/x"[..]) && !variables.contains(&&b"HOME=/root"[..]));
        assert!(variables.contains(&&b"A=2"[..]) && !variables.contains(&&b"A="[..]));
        assert!(variables.contains(&&b"AGENTISO_EXEC=mine"[..]));
        assert_eq!(variables.iter().filter(|variable| variable.starts_with(b"AGENTISO_EXEC=")).count(), 1);
    }

    #[test]
    fn a_machine_variable_overrides_the_default_and_is_overridden_by_the_command() {
        let machine = [("HOME", "/m"), ("LANG", "de"), ("A", "m"), ("AGENTISO_EXEC", "forged")];
        let machine = machine.map(|(name, value)| (name.to_owned(), value.to_owned().into())).into();
        let env = vec![(b"A".to_vec(), b"own".to_vec()), (b"HOME".to_vec(), b"/own".to_vec())];
        let exec = Exec { argv: vec![b"true".to_vec()], env, ..Exec::default() };
        let command = prepare(&exec, &machine, &root(), "mine").unwrap();
        let variables = variables(&command);
        for expected in ["HOME=/own", "LANG=de", "A=own", "AGENTISO_EXEC=mine"] {
            assert!(variables.contains(&expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn term_is_set_for_a_terminal_and_not_for_pipes() {
        let mut exec = Exec { argv: vec![b"true".to_vec()], ..Exec::default() };
        let has_term = |exec: &Exec| {
            let command = prepare(exec, &Variables::new(), &root(), "m").unwrap();
            variables(&command).iter().any(|variable| variable.starts_with(b"TERM="))
        };
        assert!(!has_term(&exec));
        exec.tty = Some((80, 24));
        assert!(has_term(&exec));
    }

    #[test]
    fn a_program_is_looked_up_in_the_path_of_the_command() {
        let path = (b"PATH".to_vec(), b"/a::/b".to_vec());
        let exec = Exec { argv: vec![b"x".to_vec()], env: vec![path], ..Exec::default() };
        let command = prepare(&exec, &Variables::new(), &root(), "m").unwrap();
        let tried: Vec<_> = command.candidates.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(tried, ["/a/x", "./x", "/b/x"]);
    }

    #[test]
    fn commands_that_cannot_start_are_rejected() {
        let refused = |argv: &[&[u8]], env: &[(&[u8], &[u8])], workdir: Option<&[u8]>| {
            let exec = Exec {
                argv: argv.iter().map(|argument| argument.to_vec()).collect(),
                env: env.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
                workdir: workdir.map(<[u8]>::to_vec),
                ..Exec::default()
            };
            prepare(&exec, &Variables::new(), &root(), "m").unwrap_err().kind == ErrorKind::Invalid
        };
        assert!(refused(&[], &[], None));
        assert!(refused(&[b""], &[], None));
        assert!(refused(&[b"a", b"b\0c"], &[], None));
        assert!(refused(&[b"a"], &[(b"", b"1")], None));
        assert!(refused(&[b"a"], &[(b"x=y", b"1")], None));
        assert!(refused(&[b"a"], &[(b"x", b"\0")], None));
        assert!(refused(&[b"a"], &[], Some(b"relative")));
        assert!(refused(&[b"a"], &[], Some(b"/a\0b")));
    }
}
