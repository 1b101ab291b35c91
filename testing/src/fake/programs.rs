//! The programs a fake machine has.

use agentiso_core::ports::link::{GuestError, WriteOptions};

use super::script::{Blocked, Script};
use super::tree::{Content, Tree};

/// What became of a program.
pub(super) enum Done {
    Status {
        status: i32,
        stdout: Vec<u8>,
        stderr: Vec<u8>,
    },
    /// It ends the script.
    Exit(i32),
    /// It ends the script by a signal.
    Killed(i32),
    /// It sets a variable of the script.
    Set(String, String),
    /// It waits.
    Blocked(Blocked),
}

/// Programs that are run without a shell too.
const KNOWN: [&str; 20] = [
    "cat", "echo", "env", "false", "hostname", "id", "kill", "ln", "ls", "mkdir", "mv", "printenv", "pwd",
    "rm", "serve", "sleep", "sync", "test", "touch", "true",
];

/// Whether there is a program of this name, with or without its directory.
pub(super) fn is_known(name: &str) -> bool {
    let name = ["/bin/", "/usr/bin/"].iter().find_map(|dir| name.strip_prefix(dir)).unwrap_or(name);
    KNOWN.contains(&name)
}

/// Runs a program.
pub(super) fn run(words: &[String], script: &Script, tree: &mut Tree) -> Done {
    let Some((name, arguments)) = words.split_first() else { return said("") };
    let name = ["/bin/", "/usr/bin/"].iter().find_map(|dir| name.strip_prefix(dir)).unwrap_or(name);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Some((variable, value)) = name.split_once('=') {
        return Done::Set(variable.to_owned(), value.to_owned());
    }
    match (name, arguments.as_slice()) {
        ("exec", _) => run(&words[1..], script, tree),
        (":" | "sync" | "true" | "umask" | "set", _) => said(""),
        ("false", _) => failed(1, ""),
        ("exit", [code]) => Done::Exit(code.parse().unwrap_or(2)),
        ("exit", _) => Done::Exit(0),
        ("echo", ["-n", rest @ ..]) => said(&rest.join(" ")),
        ("echo", rest) => said(&format!("{}\n", rest.join(" "))),
        ("pwd", _) => said(&format!("{}\n", String::from_utf8_lossy(&script.workdir))),
        ("hostname", _) => said(&format!("{}\n", script.hostname)),
        ("id", ["-u"]) => said(&format!("{}\n", script.uid)),
        ("env", _) => {
            said(&script.env.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>())
        }
        ("printenv", [variable]) => match script.env.get(*variable) {
            Some(value) => said(&format!("{value}\n")),
            None => failed(1, ""),
        },
        ("kill", [signal, target]) => kill(signal, target, script),
        ("sleep", _) => Done::Blocked(Blocked::Sleep),
        ("serve", [port]) => {
            port.parse().map_or(failed(2, "serve: a port\n"), |port| Done::Blocked(Blocked::Serve(port)))
        }
        ("cat", []) => Done::Blocked(Blocked::Cat),
        _ => with_files(name, &arguments, script, tree),
    }
}

fn with_files(name: &str, arguments: &[&str], script: &Script, tree: &mut Tree) -> Done {
    let (flags, paths): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|word| word.starts_with('-'));
    let paths: Vec<Vec<u8>> = paths.iter().map(|path| script.absolute(path.as_bytes())).collect();
    let flag = |wanted: char| flags.iter().any(|flags| flags.contains(wanted));
    let done = match (name, paths.as_slice()) {
        ("cat", paths) => paths
            .iter()
            .map(|path| tree.read(path).map(|(_, bytes)| bytes.to_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat()),
        ("ls", paths) => list(paths.first().unwrap_or(&script.workdir), tree),
        ("touch", paths) => each(paths, |path| {
            tree.write(path, Vec::new(), WriteOptions { append: true, ..WriteOptions::default() })
        }),
        ("mkdir", paths) => each(paths, |path| tree.mkdir(path, None, flag('p'))),
        ("rm", paths) => each(paths, |path| match tree.remove(path, flag('r')) {
            Err(_) if flag('f') => Ok(()),
            removed => removed,
        }),
        ("mv", [from, to]) => tree.rename(from, to, true).map(|()| Vec::new()),
        ("ln", [_, path]) => {
            // The target is kept as it was written.
            let target = arguments.iter().rev().nth(1).copied().unwrap_or_default();
            tree.symlink(path, target.as_bytes()).map(|()| Vec::new())
        }
        ("test", [path]) => {
            let found = tree.stat(path, true).is_ok();
            return if found { said("") } else { failed(1, "") };
        }
        _ => return failed(127, &format!("{name}: not found\n")),
    };
    match done {
        Ok(stdout) => Done::Status { status: 0, stdout, stderr: Vec::new() },
        Err(error) => failed(1, &format!("{name}: {}\n", error.message)),
    }
}

fn list(path: &[u8], tree: &Tree) -> Result<Vec<u8>, GuestError> {
    if tree.get(path).is_some_and(|node| node.content != Content::Directory) {
        return Ok([path, b"\n"].concat());
    }
    Ok(tree.list(path)?.into_iter().flat_map(|entry| [entry.name, b"\n".to_vec()].concat()).collect())
}

fn each(
    paths: &[Vec<u8>],
    mut act: impl FnMut(&[u8]) -> Result<(), GuestError>,
) -> Result<Vec<u8>, GuestError> {
    paths.iter().try_for_each(|path| act(path)).map(|()| Vec::new())
}

fn kill(signal: &str, target: &str, script: &Script) -> Done {
    let signal = match signal {
        "-KILL" => 9,
        "-TERM" => 15,
        number => number.trim_start_matches('-').parse().unwrap_or(15),
    };
    if target == script.pid.to_string() { Done::Killed(signal) } else { failed(1, "kill: no such process\n") }
}

fn said(text: &str) -> Done {
    Done::Status { status: 0, stdout: text.as_bytes().to_vec(), stderr: Vec::new() }
}

fn failed(status: i32, text: &str) -> Done {
    Done::Status { status, stdout: Vec::new(), stderr: text.as_bytes().to_vec() }
}
