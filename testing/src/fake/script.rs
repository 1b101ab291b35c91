//! Running command lines: a little interpreter whose state is plain data, so that it is in every copy of a machine.

use std::collections::{BTreeMap, VecDeque};

use agentiso_core::ports::link::{ExitStatus, WriteOptions};

use super::programs::{self, Done};
use super::shell::{Command, Target, When, parse};
use super::tree::Tree;

/// A command line that runs.
#[derive(Clone, Debug)]
pub(super) struct Script {
    todo: VecDeque<Command>,
    /// What the script is called, and its arguments.
    parameters: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub pid: u32,
    pub uid: u32,
    pub workdir: Vec<u8>,
    pub hostname: String,
    status: i32,
    waiting: Option<Waiting>,
}

/// A program that waits, and where its output goes.
#[derive(Clone, Debug)]
struct Waiting {
    program: Blocked,
    output: Option<Output>,
}

/// What a program waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Blocked {
    /// Input, which it prints.
    Cat,
    /// A signal.
    Sleep,
    /// Connections to a port.
    Serve(u16),
}

/// Where the standard output of a command goes.
#[derive(Clone, Debug)]
enum Output {
    Stream(u8),
    File(Vec<u8>),
}

/// What a script has printed: 1 or 2, and the bytes.
pub(super) type Printed = Vec<(u8, Vec<u8>)>;

impl Script {
    /// A script of a line for a shell.
    pub fn of_line(line: &str, parameters: Vec<String>) -> Self {
        Self::new(parse(line), parameters)
    }

    /// A script of one program.
    pub fn of_program(words: &[String]) -> Self {
        Self::new(vec![Command::of_words(words.iter().map(String::as_str))], Vec::new())
    }

    fn new(commands: Vec<Command>, parameters: Vec<String>) -> Self {
        Self {
            todo: commands.into(),
            parameters,
            env: BTreeMap::new(),
            pid: 0,
            uid: 0,
            workdir: b"/".to_vec(),
            hostname: String::new(),
            status: 0,
            waiting: None,
        }
    }

    /// The port it serves, if it does.
    pub fn port(&self) -> Option<u16> {
        match self.waiting {
            Some(Waiting { program: Blocked::Serve(port), .. }) => Some(port),
            _ => None,
        }
    }

    /// Runs until it ends or waits, and takes the input that it reads. Returns how it ended, if it did.
    pub fn run(
        &mut self,
        tree: &mut Tree,
        input: &mut Vec<u8>,
        input_is_over: bool,
        printed: &mut Printed,
    ) -> Option<ExitStatus> {
        loop {
            if let Some(waiting) = self.waiting.take() {
                let mut output = waiting.output.clone();
                let is_over = waiting.program == Blocked::Cat && input_is_over;
                if waiting.program == Blocked::Cat {
                    self.print(tree, &mut output, std::mem::take(input), printed);
                }
                if !is_over {
                    self.waiting = Some(Waiting { output, ..waiting });
                    return None;
                }
                self.status = 0;
            }
            let Some(command) = self.todo.pop_front() else { return Some(ExitStatus::Code(self.status)) };
            let skipped = match command.when {
                When::Always => false,
                When::Succeeded => self.status != 0,
                When::Failed => self.status == 0,
            };
            if !skipped && let Some(ended) = self.start(&command, tree, printed) {
                return Some(ended);
            }
        }
    }

    /// Starts a command. Returns how the script ended, if it did.
    fn start(&mut self, command: &Command, tree: &mut Tree, printed: &mut Printed) -> Option<ExitStatus> {
        let words: Vec<String> =
            command.words.iter().map(|word| word.expand(|name| self.value(name))).collect();
        let (mut stdout, mut stderr) = (Some(Output::Stream(1)), Some(Output::Stream(2)));
        for redirect in &command.redirects {
            let to = match &redirect.to {
                Target::Stream(1) => stdout.clone(),
                Target::Stream(_) => stderr.clone(),
                Target::File { path, append } => {
                    let path = self.absolute(path.expand(|name| self.value(name)).as_bytes());
                    let options = WriteOptions { append: *append, ..WriteOptions::default() };
                    match path.as_slice() {
                        b"/dev/null" => None,
                        _ if tree.write(&path, Vec::new(), options).is_err() => {
                            self.status = 1;
                            return None;
                        }
                        _ => Some(Output::File(path)),
                    }
                }
            };
            if redirect.from == 1 { stdout = to } else { stderr = to }
        }
        match programs::run(&words, self, tree) {
            Done::Status { status, stdout: out, stderr: err } => {
                self.print(tree, &mut stdout, out, printed);
                self.print(tree, &mut stderr, err, printed);
                self.status = status;
                None
            }
            Done::Exit(code) => Some(ExitStatus::Code(code)),
            Done::Killed(signal) => Some(ExitStatus::Signal(signal)),
            Done::Set(name, value) => {
                self.env.insert(name, value);
                None
            }
            Done::Blocked(program) => {
                self.waiting = Some(Waiting { program, output: stdout });
                None
            }
        }
    }

    fn print(&self, tree: &mut Tree, to: &mut Option<Output>, bytes: Vec<u8>, printed: &mut Printed) {
        if bytes.is_empty() {
            return;
        }
        match to {
            Some(Output::Stream(stream)) => printed.push((*stream, bytes)),
            Some(Output::File(path)) => {
                // A file that was removed meanwhile is written to by nobody.
                let _ = tree.write(path, bytes, WriteOptions { append: true, ..WriteOptions::default() });
            }
            None => {}
        }
    }

    /// A path as the script means it.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") { path.to_vec() } else { [&self.workdir, &b"/"[..], path].concat() }
    }

    fn value(&self, name: &str) -> String {
        match name {
            "$" => self.pid.to_string(),
            "?" => self.status.to_string(),
            number if number.parse::<usize>().is_ok() => {
                let number: usize = number.parse().unwrap_or_default();
                self.parameters.get(number).cloned().unwrap_or_default()
            }
            name => self.env.get(name).cloned().unwrap_or_default(),
        }
    }
}
