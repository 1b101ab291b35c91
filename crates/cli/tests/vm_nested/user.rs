//! An ordinary user of the host, removed at the end of the test.

use std::path::Path;
use std::process::Command;

/// An account with its own systemd instance.
pub struct User {
    name: &'static str,
    uid: String,
}

impl User {
    /// Creates a user who is also in these groups.
    pub fn new(name: &'static str, groups: &[&str]) -> Self {
        said_by(&["useradd", "--no-create-home", name]);
        for group in groups {
            said_by(&["usermod", "--append", "--groups", group, name]);
        }
        let uid = said_by(&["id", "-u", name]);
        let user = Self { name, uid };
        said_by(&["systemctl", "start", &user.service()]);
        user
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }

    fn service(&self) -> String {
        format!("user@{}.service", self.uid)
    }

    /// The command that runs another one as the user, like a login over the network: outside the user's systemd.
    pub fn wrapper(&self) -> Vec<String> {
        let words = ["setpriv", "--reuid", self.name, "--regid", self.name, "--init-groups", "env"];
        let mut line = words.map(str::to_owned).to_vec();
        line.push(format!("XDG_RUNTIME_DIR=/run/user/{}", self.uid));
        line
    }

    /// Grants the permissions named in a remedy, and access to the devices.
    pub fn leave_for(&self, dataset: &str, remedy: &str) -> Leave {
        let leave = Leave { user: self.name, dataset: dataset.to_owned() };
        let (_, command) = remedy.split_once(": ").expect("a command");
        said_by(
            &command
                .split(' ')
                .map(|word| if word == "$USER" { self.name } else { word })
                .collect::<Vec<_>>(),
        );
        let rule = format!(
            "KERNEL==\"zd*\", PROGRAM==\"/lib/udev/zvol_id $devnode\", RESULT==\"{dataset}/*\", OWNER=\"{}\"\n",
            self.name
        );
        std::fs::write(RULE, rule).expect("a rule");
        said_by(&["udevadm", "control", "--reload"]);
        leave
    }

    /// Gives a home to the user, with its own kernel and image.
    pub fn is_given(&self, home: &Path) {
        let prepared = std::env::var("AGENTISO_TEST_HOME").expect("AGENTISO_TEST_HOME");
        for part in ["kernel", "images"] {
            let (from, to) = (format!("{prepared}/{part}"), home.join(part));
            said_by(&["cp", "-a", "--reflink=auto", "--sparse=always", &from, &to.to_string_lossy()]);
        }
        said_by(&["chown", "-R", &format!("{0}:{0}", self.name), &home.to_string_lossy()]);
    }
}

/// Permissions for ZFS volumes, revoked at the end of the test.
pub struct Leave {
    user: &'static str,
    dataset: String,
}

/// Must sort after the rules that name the devices of volumes.
const RULE: &str = "/etc/udev/rules.d/91-agentiso.rules";

impl Drop for Leave {
    fn drop(&mut self) {
        let _ = Command::new("zfs").args(["unallow", self.user, &self.dataset]).status();
        let _ = std::fs::remove_file(RULE);
        let _ = Command::new("udevadm").args(["control", "--reload"]).status();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = Command::new("systemctl").args(["stop", &self.service()]).status();
        let _ = Command::new("userdel").arg(self.name).status();
    }
}

/// The output of a command that must succeed.
pub fn said_by(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("it is installed");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
