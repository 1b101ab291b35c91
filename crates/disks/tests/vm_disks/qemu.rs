//! A QEMU without a guest that reads and writes a disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Killed on drop.
pub struct Qemu {
    process: Child,
    monitor: BufReader<UnixStream>,
    output: PathBuf,
    commands: usize,
}

impl Qemu {
    /// Starts QEMU with a qcow2 disk. `dir` is for its files.
    pub fn start(dir: &Path, disk: &Path) -> Self {
        let scratch = tempfile::tempdir_in(dir).unwrap().keep();
        let socket = scratch.join("monitor");
        let listener = UnixListener::bind(&socket).unwrap();
        let output = scratch.join("output");
        let blockdev = json!({
            "driver": "qcow2", "node-name": "disk", "file": { "driver": "file", "filename": disk },
        });
        let mut process = Command::new("qemu-system-x86_64")
            .args(["-M", "none", "-S", "-nodefaults", "-display", "none"])
            .arg("-chardev")
            .arg(format!("socket,id=monitor,path={}", socket.display()))
            .args(["-mon", "chardev=monitor,mode=control", "-blockdev", &blockdev.to_string()])
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(scratch.join("errors")).unwrap())
            .spawn()
            .unwrap();
        let errors = || fs::read_to_string(scratch.join("errors")).unwrap();
        // If QEMU exits before it connects, there is never anything to accept.
        listener.set_nonblocking(true).unwrap();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) => assert!(process.try_wait().unwrap().is_none(), "QEMU ended: {}", errors()),
            }
            std::thread::yield_now();
        };
        stream.set_nonblocking(false).unwrap();
        let mut this = Self { process, monitor: BufReader::new(stream), output, commands: 0 };
        let greeting = this.line().unwrap_or_else(|| panic!("QEMU does not start: {}", errors()));
        assert!(greeting.get("QMP").is_some(), "{greeting}");
        this.execute("qmp_capabilities", &json!({}));
        this
    }

    /// Runs a `qemu-io` command.
    pub fn io(&mut self, command: &str) {
        let answer = self.execute(
            "human-monitor-command",
            &json!({ "command-line": format!("qemu-io disk \"{command}\"") }),
        );
        assert_eq!(answer, json!({ "return": "" }), "{command}");
        self.commands += usize::from(command != "flush");
    }

    /// Quits normally and checks that everything read was as expected.
    pub fn quit(mut self) {
        self.execute("quit", &json!({}));
        assert!(self.process.wait().unwrap().success());
        let output = fs::read_to_string(&self.output).unwrap();
        let done = output.lines().filter(|line| line.contains(" bytes at offset ")).count();
        assert_eq!(done, self.commands, "{output}");
        assert!(!output.contains("failed") && !output.contains("rror"), "{output}");
    }

    /// Kills QEMU, like a crash.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Value {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.monitor.get_mut(), "{request}").unwrap();
        loop {
            let answer = self.line().unwrap();
            if answer.get("event").is_none() {
                assert!(answer.get("return").is_some(), "{command}: {answer}");
                return answer;
            }
        }
    }

    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.monitor.read_line(&mut line).unwrap();
        serde_json::from_str(&line).ok()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
