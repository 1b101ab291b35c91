//! Where a command runs, and where its paths lead.

/// What the rules about paths depend on. All paths are absolute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scope {
    /// The directories the command may use. `/` is a whole machine: then nothing is outside.
    pub workspace: Vec<String>,
    /// The directory in which the command starts.
    pub cwd: String,
    /// The caller's home directory, which `~` and `$HOME` mean.
    pub home: Option<String>,
}

impl Scope {
    /// A command that starts in the workspace's own directory.
    pub fn new(workspace: impl Into<String>) -> Self {
        let workspace = normalise("/", &workspace.into());
        Self { cwd: workspace.clone(), workspace: vec![workspace], home: None }
    }

    /// Sets the caller's home directory.
    #[must_use]
    pub fn with_home(mut self, home: impl Into<String>) -> Self {
        self.home = Some(normalise("/", &home.into()));
        self
    }

    /// Sets the directory in which the command starts; a relative one is below the present one.
    #[must_use]
    pub fn with_cwd(mut self, cwd: &str) -> Self {
        self.cwd = normalise(&self.cwd, cwd);
        self
    }

    /// Adds a directory the command may use.
    #[must_use]
    pub fn with_workspace(mut self, also: &str) -> Self {
        self.workspace.push(normalise("/", also));
        self
    }

    /// Whether commands have a whole machine to themselves.
    pub fn is_machine(&self) -> bool {
        self.workspace.iter().any(|root| root == "/")
    }

    /// The home directory, or a path that is outside every workspace.
    pub(super) fn home(&self) -> &str {
        self.home.as_deref().unwrap_or("/home/caller")
    }

    /// Where an absolute, normalised path leads.
    pub(super) fn place(&self, path: &str) -> Place {
        if self.workspace.iter().any(|root| is_below(path, root)) {
            return Place::Workspace;
        }
        if is_below(path, "/dev/tcp") || is_below(path, "/dev/udp") {
            return Place::Socket;
        }
        if DEVICES.contains(&path) || is_below(path, "/dev/fd") {
            return Place::Device;
        }
        if is_below(path, "/tmp") {
            return Place::Scratch;
        }
        match SYSTEM.iter().any(|root| is_below(path, root)) {
            true => Place::System,
            false => Place::Outside,
        }
    }
}

/// Devices that any command may use.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Directories with the system's programs, which may be read.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Where a path leads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Into the workspace.
    Workspace,
    /// Into the private `/tmp`.
    Scratch,
    /// To a device without an effect on the host.
    Device,
    /// To bash's `/dev/tcp` and `/dev/udp`.
    Socket,
    /// To the system's programs.
    System,
    /// Anywhere else.
    Outside,
}

fn is_below(path: &str, root: &str) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || root == "/",
        None => false,
    }
}

/// Joins a path to a directory and resolves `.` and `..` without looking at the disk.
pub fn normalise(cwd: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let from_cwd = if path.starts_with('/') { "" } else { cwd };
    for part in from_cwd.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let mut joined = String::with_capacity(path.len() + 1);
    for part in &parts {
        joined.push('/');
        joined.push_str(part);
    }
    if joined.is_empty() {
        joined.push('/');
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_before_they_are_judged() {
        let scope = Scope::new("/work/project").with_home("/home/u");
        let place = |path: &str| scope.place(&normalise(&scope.cwd, path));
        assert_eq!(place("src/../a"), Place::Workspace);
        assert_eq!(place("../other"), Place::Outside);
        assert_eq!(place("/work/project-2"), Place::Outside);
        assert_eq!(place("/tmp/x"), Place::Scratch);
        assert_eq!(place("/tmp/../etc"), Place::Outside);
        assert_eq!(place("/usr/include/stdio.h"), Place::System);
        assert_eq!(place("/dev/null"), Place::Device);
        assert_eq!(place("/dev/sda"), Place::Outside);
        assert_eq!(place("/"), Place::Outside);
    }

    #[test]
    fn nothing_is_outside_a_machine() {
        let scope = Scope::new("/");
        assert!(scope.is_machine());
        assert_eq!(scope.place("/etc/passwd"), Place::Workspace);
    }
}
