//! Commands that are longer than the guest link or the guest's kernel takes.
//!
//! The link carries requests of up to 256 KiB, and the kernel takes arguments of up to 128 KiB each. A longer command is
//! stored in a file that only the command's user can read, and a short one is run in its place that reads the file,
//! removes it, and evaluates its content. This works with agents of every version.

use agentiso_core::ports::link::{Exec, ExitStatus, Link, LinkError, ProcessEvent};
use agentiso_core::{Capture, Code, Failure};
use uuid::Uuid;

use crate::launch::process;
use crate::not_started::NotStarted;
use crate::output::cut;
use crate::retry::while_held;

/// The longest argument the kernel takes.
const LONGEST_WORD: usize = 128 * 1024 - 1;
/// The most bytes of arguments and variables that fit into one request.
const LONGEST_REQUEST: usize = 192 * 1024;
/// From this on the kernel takes the arguments only of a process that may have a large stack.
const LARGE_ARGUMENTS: usize = 1 << 20;
/// Stores standard input in a file that must not exist yet.
const STORE: &str = "umask 077; set -C; cat > \"$0\"";
/// How long storing a command may take, in milliseconds.
const STORE_LIMIT: u64 = 60_000;
/// How much of a stored command can be seen in a list of processes and jobs.
const SHOWN: usize = 200;
const READ: &str = "eval \"$(command -p cat ";
/// Separates the code that reads the file from the beginning of the command, which is a comment for listings.
const REMARK: &str = ")\" # ";

/// Makes a command fit. Returns the file it was stored in, if it was too long.
pub(crate) async fn fit(guest: &Link, exec: Exec) -> Result<(Exec, Option<String>), NotStarted> {
    let path = format!("/tmp/.agentiso-{}", Uuid::new_v4().simple());
    match split(exec, &path)? {
        (exec, None) => Ok((exec, None)),
        (exec, Some(text)) => {
            store(guest, &exec, &path, &text).await?;
            Ok((exec, Some(path)))
        }
    }
}

/// The command a list of jobs shows for a stored one.
pub(crate) fn shown(line: &str) -> &str {
    match line.starts_with(READ) {
        true => line.split_once(REMARK).map_or(line, |(_, begin)| begin),
        false => line,
    }
}

/// A command that fits, and what has to be stored in the file for it.
fn split(mut exec: Exec, path: &str) -> Result<(Exec, Option<Vec<u8>>), Failure> {
    let variables: usize = exec.env.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
    if variables > LONGEST_REQUEST {
        return Err(Failure::new(
            Code::InvalidArgument,
            format!("the variables of the command have {variables} bytes; the limit is {LONGEST_REQUEST}"),
        )
        .with_remedy("pass long values on standard input or in a file"));
    }
    let words: usize = exec.argv.iter().map(|word| word.len() + 8).sum();
    let longest = exec.argv.iter().map(Vec::len).max().unwrap_or(0);
    if longest <= LONGEST_WORD && words + variables <= LONGEST_REQUEST {
        return Ok((exec, None));
    }
    if let Some(line) = shell_line(&exec.argv) {
        let text = std::mem::take(&mut exec.argv[line]);
        exec.argv[line] = read(path, &text);
        let rest: usize = exec.argv.iter().map(|word| word.len() + 8).sum();
        let longest = exec.argv.iter().map(Vec::len).max().unwrap_or(0);
        if longest <= LONGEST_WORD && rest + variables <= LONGEST_REQUEST {
            return Ok((exec, Some(text)));
        }
        exec.argv[line] = text;
    }
    if let Some(number) = exec.argv.iter().position(|word| word.len() > LONGEST_WORD) {
        let bytes = exec.argv[number].len();
        return Err(Failure::new(
            Code::InvalidArgument,
            format!("argument {number} has {bytes} bytes; the kernel takes at most {LONGEST_WORD} in one"),
        )
        .with_remedy("pass long content on standard input or in a file"));
    }
    let mut text = Vec::with_capacity(words + words / 8);
    if words > LARGE_ARGUMENTS {
        // The kernel gives arguments a quarter of the stack.
        text.extend_from_slice(b"ulimit -S -s 32768 2>/dev/null\n");
    }
    text.extend_from_slice(b"exec");
    for word in &exec.argv {
        text.push(b' ');
        quote(word, &mut text);
    }
    let line = read(path, &exec.argv.join(&b' '));
    exec.argv = vec![b"/bin/sh".to_vec(), b"-c".to_vec(), line];
    Ok((exec, Some(text)))
}

/// Which argument is a line for a shell, if the command is one.
fn shell_line(argv: &[Vec<u8>]) -> Option<usize> {
    let [program, flags, _, ..] = argv else { return None };
    let name = program.rsplit(|&byte| byte == b'/').next()?;
    let is_shell = [&b"sh"[..], b"bash", b"dash", b"ash", b"ksh", b"zsh"].contains(&name);
    let takes_line = flags.starts_with(b"-") && !flags.starts_with(b"--") && flags.ends_with(b"c");
    (is_shell && takes_line).then_some(2)
}

/// A shell line that removes a file and evaluates its content.
fn read(path: &str, text: &[u8]) -> Vec<u8> {
    let begin = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
    let begin: String = cut(&begin, SHOWN).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{READ}{path} && command -p rm -f {path}{REMARK}{begin}").into_bytes()
}

fn quote(word: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
}

/// Stores a text in a new file of the command's user.
async fn store(guest: &Link, exec: &Exec, path: &str, text: &[u8]) -> Result<(), NotStarted> {
    let request = Exec {
        argv: ["/bin/sh", "-c", STORE, path].map(|word| word.as_bytes().to_vec()).to_vec(),
        workdir: Some(b"/".to_vec()),
        user: exec.user.clone(),
        stdin: true,
        timeout_ms: Some(STORE_LIMIT),
        ..Exec::default()
    };
    let mut storing = while_held(|| process(guest.clone(), request.clone())).await?;
    if let Some(mut input) = storing.take_stdin() {
        match input.write(text).await {
            // It ended early; its exit status says why.
            Ok(()) | Err(LinkError::InputEnded) => drop(input),
            Err(error) => return Err(error.into()),
        }
    }
    let mut said = Capture::new(1000);
    loop {
        match storing.next().await? {
            Some(ProcessEvent::Stderr(bytes)) => said.push(&bytes),
            Some(ProcessEvent::Exited(exit)) if exit.status == ExitStatus::Code(0) => return Ok(()),
            Some(ProcessEvent::Exited(_)) | None => break,
            Some(_) => {}
        }
    }
    let failure = Failure::new(
        Code::GuestFailed,
        format!(
            "the command has {} bytes and could not be stored in {path}: {}",
            text.len(),
            said.text().trim()
        ),
    );
    Err(failure.with_remedy("make room in /tmp of the workspace, or run a shorter command").into())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn exec(argv: &[&str]) -> Exec {
        Exec { argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(), ..Exec::default() }
    }

    /// Splits a command, stores what is to be stored and runs the rest on this machine.
    fn run(asked: Exec) -> (String, bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stored").to_str().unwrap().to_owned();
        let (exec, text) = split(asked, &path).unwrap();
        if let Some(text) = &text {
            std::fs::write(&path, text).unwrap();
        }
        let words: Vec<String> = exec.argv.into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
        let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!std::path::Path::new(&path).exists(), "the file is left");
        (String::from_utf8(output.stdout).unwrap(), text.is_some())
    }

    #[test]
    fn short_commands_stay_as_they_are() {
        let asked = exec(&["/bin/sh", "-c", "echo $0 $1", "a", "b"]);
        assert_eq!(split(asked.clone(), "/f").unwrap(), (asked.clone(), None));
        assert_eq!(run(asked), ("a b\n".to_owned(), false));
    }

    #[test]
    fn a_long_line_runs_with_the_same_arguments_and_leaves_nothing() {
        let line =
            format!("{}\necho \"$0 $1\" 'it'\"'\"'s'", format!("# {}\n", "x".repeat(60)).repeat(30_000));
        assert!(line.len() > 1 << 20);
        assert_eq!(run(exec(&["/bin/sh", "-c", &line, "a", "b"])), ("a it's\n".replace("a ", "a b "), true));
    }

    #[test]
    fn many_arguments_arrive_as_they_were_given() {
        let odd = "it's \"odd\" $HOME\n\\";
        let mut words = vec!["printf", "%s", odd];
        let filler = "y".repeat(1000);
        words.extend(std::iter::repeat_n(filler.as_str(), 1500));
        let (said, stored) = run(exec(&words));
        assert!(stored && said.starts_with(odd) && said.len() == odd.len() + 1_500_000);
    }

    #[test]
    fn an_argument_the_kernel_cannot_take_is_refused_by_its_number() {
        let long = "z".repeat(LONGEST_WORD + 1);
        let failure = split(exec(&["echo", "a", &long]), "/f").unwrap_err();
        assert_eq!(failure.code(), Code::InvalidArgument);
        assert!(failure.message().starts_with("argument 2 has 131072 bytes"), "{failure}");
        let env = vec![(b"A".to_vec(), vec![b'x'; LONGEST_REQUEST])];
        assert!(split(Exec { env, ..exec(&["true"]) }, "/f").is_err());
    }

    #[test]
    fn a_list_of_jobs_shows_the_beginning_of_what_was_stored() {
        let line = format!("make all\n{}", "#".repeat(300_000));
        let (exec, _) = split(exec(&["/bin/bash", "-c", &line]), "/f").unwrap();
        let sent = String::from_utf8(exec.argv[2].clone()).unwrap();
        assert!(sent.len() < 500, "{sent}");
        assert!(shown(&sent).starts_with("make all #"), "{sent}");
        assert_eq!(shown("echo \" # b"), "echo \" # b");
    }
}
