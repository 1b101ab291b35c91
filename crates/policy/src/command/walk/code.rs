//! Code in other languages: it always counts as mutating, and words in it tell what else it may do.

use super::super::Categories;
use super::super::shell::Excess;
use super::judged::Judged;
use super::simple::{hidden_code, quoted};
use super::state::{Streams, Walk};

const NETWORK: &[&str] = &[
    "requests.",
    "import requests",
    "urllib",
    "http.client",
    "httpx",
    "aiohttp",
    "socket",
    "urlopen",
    "fetch(",
    "axios",
    "XMLHttpRequest",
    "http.get",
    "https.get",
    "http.request",
    "https.request",
    "net.connect",
    "net.createConnection",
    "WebSocket",
    "websocket",
    "LWP",
    "Net::HTTP",
    "Net::FTP",
    "Net::SSH",
    "open-uri",
    "URI.open",
    "HTTParty",
    "Faraday",
    "TCPSocket",
    "TCPServer",
    "IO::Socket",
    "HTTP::Tiny",
    "smtplib",
    "ftplib",
    "telnetlib",
    "poplib",
    "imaplib",
    "xmlrpc",
    "paramiko",
    "boto3",
    "curl_exec",
    "curl_init",
    "fsockopen",
    "stream_socket",
    "http://",
    "https://",
    "ftp://",
    "ws://",
    "wss://",
    "HTTPServer",
    "http.server",
    "createServer",
    ".listen(",
    "http.Get",
    "net.Dial",
    "net/http",
    "psycopg",
    "pymysql",
    "MySQLdb",
    "redis.",
    "pymongo",
    "MongoClient",
    "dns.lookup",
    "dns.resolve",
    "require('dns",
    "require(\"dns",
    "node:dns",
    "httpd",
    "/inet/",
    "INADDR",
    "gethostby",
    "getaddrinfo",
    "require('net')",
    "require(\"net\")",
    "node:net",
    "node:http",
    "'http'",
    "\"http\"",
    "'https'",
    "\"https\"",
    "grpc",
    "openai",
    "anthropic",
    "pip.main",
    "pip install",
    "download(",
];

const DELETION: &[&str] = &[
    "rmtree",
    "os.remove",
    "os.unlink",
    ".unlink(",
    "unlink(",
    "unlink ",
    "unlinkSync",
    "rmSync",
    "rmdirSync",
    "fs.rm",
    "rmdir",
    "removeSync",
    "rimraf",
    "FileUtils.rm",
    "FileUtils.remove",
    "File.delete",
    "File.unlink",
    "Dir.rmdir",
    "Dir.delete",
    "os.removedirs",
    "truncate",
    "remove_tree",
    "shutil.move",
    "os.rename",
    "os.replace",
    "renameSync",
    "fs.rename",
    "os.RemoveAll",
    "os.Remove",
    "remove_dir_all",
    "remove_file",
    ".rmdir()",
    "Deno.remove",
    "send2trash",
    "drop_all",
    "dropDatabase",
    "deleteMany",
    "deleteOne",
    "FLUSHALL",
    "os.kill",
    "process.kill",
    "emptyDir",
    "Deno.truncate",
    "File.rename",
    "file.remove",
    "unlinkFile",
    "filesystem::remove",
    "rename(",
    "remove(",
    "'remove'",
    "\"remove\"",
    "'unlink'",
    "\"unlink\"",
    "'rmtree'",
    "\"rmtree\"",
];

const HOST: &[&str] = &[
    "expanduser",
    "Path.home()",
    "homedir()",
    "environ['HOME']",
    "environ[\"HOME\"]",
    "getenv('HOME')",
    "getenv(\"HOME\")",
    "env.HOME",
    "ENV['HOME']",
    "ENV[\"HOME\"]",
    "ENV{HOME}",
    "Dir.home",
    "os.chroot",
    "os.setuid",
    "setuid(",
    "os.mknod",
    "ctypes",
    "/proc/",
    "setns",
];

const TERMINAL: &[&str] = &[
    "input(",
    "pty.spawn",
    "pdb.set_trace",
    "breakpoint()",
    "curses",
    "getpass",
    "readline.question",
    "inquirer",
    "STDIN.gets",
    "$stdin.gets",
    "gets.chomp",
    "<STDIN>",
    "prompt(",
];

const EXECUTION: &[&str] = &[
    "system",
    "popen",
    "Popen",
    "subprocess",
    "exec",
    "spawn",
    "child_process",
    "check_output",
    "check_call",
    "`",
    "qx",
    "%x",
    "Open3",
    "passthru",
    "proc_open",
    "backtick",
    "Deno.Command",
    "Command(",
    "Command.new",
    "run(",
    "os:cmd",
    "syscmd",
    "do shell script",
    "shell(",
    "cmd(",
];

const DECODING: &[&str] = &[
    "b64decode",
    "base64",
    "atob(",
    "unhexlify",
    "fromhex",
    "decode(",
    "unpack(",
    "marshal",
    "codecs",
    "chr(",
];
const EVALUATION: &[&str] = &["exec(", "eval(", "eval ", "compile(", "Function(", "__import__", "importlib"];

impl Walk<'_> {
    /// Judges a program in another language by the words in it.
    pub(super) fn code(&mut self, code: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        let has =
            |words: &[&str]| words.iter().find(|word| code.contains(**word)).map(|word| (*word).to_owned());
        judged.add(Categories::MUTATING, "code in another language is not followed");
        if let Some(word) = has(NETWORK) {
            judged.add(Categories::NETWORKED, format!("the code has {word}"));
        }
        if let Some(word) = has(DELETION) {
            judged.add(Categories::DESTRUCTIVE, format!("the code has {word}"));
        }
        let removes = code
            .match_indices("rm(")
            .any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'));
        if removes {
            judged.add(Categories::DESTRUCTIVE, "the code calls rm");
        }
        if let Some(word) = has(HOST) {
            judged.add(Categories::HOST_ESCAPE_RISK, format!("the code has {word}"));
        }
        if let Some(word) = has(TERMINAL) {
            judged.add(Categories::INTERACTIVE, format!("the code has {word}"));
        }
        if has(EVALUATION).is_some() && has(DECODING).is_some() {
            judged.add(hidden_code(), "the code runs what it decodes");
        }
        let runs_others = has(EXECUTION).is_some();
        let literals = literals(code);
        for literal in &literals {
            // Perl's `open(F, ">/path")`, and pipes of it.
            let text = literal.text.trim_start_matches(['<', '>', '+', '|', ' ']);
            if text.starts_with(['/', '~']) || text.contains("../") || matches!(text, "..") {
                self.judge_argument(text, false, judged);
            }
        }
        for line in bare_commands(code) {
            self.subshell(|walk| walk.text(line, Streams { captured: true, ..Streams::default() }))?;
        }
        if !runs_others {
            for literal in literals.iter().filter(|literal| code.contains("open") && is_pipe(&literal.text)) {
                let line = literal.text.trim_matches(['|', ' ']);
                self.subshell(|walk| walk.text(line, Streams { captured: true, ..Streams::default() }))?;
            }
            return Ok(());
        }
        // A literal may be a line, and literals with only commas between them may be a list of arguments.
        let mut at = 0;
        while at < literals.len() {
            let length = 1 + literals[at + 1..].iter().take_while(|literal| literal.follows).count();
            let line = match &literals[at..at + length] {
                [single] => single.text.clone(),
                list => list.iter().map(|literal| quoted(&literal.text)).collect::<Vec<_>>().join(" "),
            };
            let line = line.trim_matches(['|', ' ']).to_owned();
            let is_command =
                line.starts_with(|letter: char| letter.is_ascii_alphabetic() || "'/.~$".contains(letter));
            if is_command {
                self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
            }
            at += length;
        }
        Ok(())
    }
}

/// Perl's `open(F, "|command")` and `open(F, "command|")`.
fn is_pipe(text: &str) -> bool {
    text.len() > 1 && (text.starts_with('|') || text.ends_with('|'))
}

/// Commands without quotes: `exec rm x` of Tcl, `syscmd(rm x)` of m4.
fn bare_commands(code: &str) -> impl Iterator<Item = &str> {
    const STARTS: &[&str] = &["exec ", "spawn ", "system ", "syscmd(", "esyscmd(", "shell "];
    code.split(['\n', ';', '['])
        .filter_map(|line| {
            let line = line.trim_start();
            STARTS.iter().find_map(|start| line.strip_prefix(start))
        })
        .map(|line| line.trim_end_matches([')', ']', ' ']))
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/'))
        .take(32)
}

/// A quoted text in code.
pub(super) struct Literal {
    pub text: String,
    /// Only a comma stands between it and the one before.
    follows: bool,
}

/// The quoted texts in code of any language. Comments and regular expressions are not told apart from code.
pub(super) fn literals(code: &str) -> Vec<Literal> {
    let mut found: Vec<Literal> = Vec::new();
    let mut between = String::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        if !matches!(letter, '"' | '\'' | '`') {
            if between.len() < 8 {
                between.push(letter);
            }
            continue;
        }
        let mut text = String::new();
        while let Some(inner) = letters.next() {
            match inner {
                '\\' => text.extend(letters.next()),
                _ if inner == letter => break,
                _ => text.push(inner),
            }
        }
        let follows = !found.is_empty() && between.trim() == ",";
        between.clear();
        found.push(Literal { text, follows });
    }
    found
}
