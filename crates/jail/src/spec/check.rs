//! Refusing specifications and commands that cannot be carried out, before anything is done.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::{Mount, Network, Overlay, Root, SPEC_VERSION, Spec};
use crate::command::{Command, Leftovers};
use crate::error::JailError;

const MAX_MOUNTS: usize = 256;
const MAX_LAYERS: usize = 500;
const MAX_HOSTNAME: usize = 64;
/// A process needs some memory to start.
const MIN_MEMORY: u64 = 4 << 20;

fn refuse<T>(why: impl Into<String>) -> Result<T, JailError> {
    Err(JailError::Invalid(why.into()))
}

impl Spec {
    /// Whether a sandbox can be made of it, as far as can be said without looking at the host.
    pub fn check(&self) -> Result<(), JailError> {
        if self.version != SPEC_VERSION {
            return refuse(format!("version {} is unknown, this is version {SPEC_VERSION}", self.version));
        }
        if self.mounts.len() > MAX_MOUNTS {
            return refuse(format!("more than {MAX_MOUNTS} mounts"));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if self.hostname.is_empty()
            || self.hostname.len() > MAX_HOSTNAME
            || !self.hostname.bytes().all(is_name)
        {
            return refuse(format!("the host name {:?} is malformed", self.hostname));
        }
        match &self.root {
            Root::Host => {}
            Root::Directory(path) => on_host("root", path)?,
            Root::Overlay(overlay) => {
                layers(overlay)?;
                if overlay.target != Path::new("/") {
                    return refuse("the target of the root must be /");
                }
            }
        }
        in_sandbox("home", &self.home)?;
        if self.home.as_os_str().as_bytes().iter().any(|byte| *byte == b':' || byte.is_ascii_control()) {
            return refuse(format!("the home directory {:?} cannot be listed in /etc/passwd", self.home));
        }
        if self.mounts.contains(&Mount::Proc) && !self.mounts.contains(&Mount::Dev) {
            return refuse("/proc needs a private /dev");
        }
        for mount in &self.mounts {
            of_mount(mount)?;
        }
        if let Some(scratch) = &self.scratch {
            on_host("scratch", scratch)?;
        }
        let limits = &self.limits;
        if limits.memory.is_some_and(|bytes| bytes < MIN_MEMORY) {
            return refuse(format!("less than {MIN_MEMORY} bytes of memory"));
        }
        let zero = [
            limits.cpu_seconds,
            limits.open_files,
            limits.processes.map(u64::from),
            limits.cpu_milli.map(u64::from),
        ];
        if zero.contains(&Some(0)) {
            return refuse("a limit is zero");
        }
        Ok(())
    }

    /// Whether it is given the network namespace that it names, and only then.
    pub(crate) fn check_network(&self, given: bool) -> Result<(), JailError> {
        match (self.network == Network::Namespace, given) {
            (true, false) => refuse("the network namespace is missing"),
            (false, true) => refuse("a network namespace is given and the specification does not use it"),
            _ => Ok(()),
        }
    }
}

impl Command {
    /// Whether it can be started, as far as can be said without looking into the sandbox.
    pub(crate) fn check(&self, in_session: bool) -> Result<(), JailError> {
        let Some(program) = self.argv.first() else { return refuse("a command needs a program") };
        if program.is_empty() {
            return refuse("the name of the program is empty");
        }
        let has_nul = |text: &std::ffi::OsStr| text.as_bytes().contains(&0);
        if self.argv.iter().any(|argument| has_nul(argument)) {
            return refuse("an argument contains a zero byte");
        }
        for (name, value) in self.env.iter() {
            if name.is_empty() || name.as_bytes().contains(&b'=') || has_nul(name) || has_nul(value) {
                return refuse(format!("the variable {name:?} is malformed"));
            }
        }
        in_sandbox("working directory", &self.cwd)?;
        if self.leftovers == Leftovers::Keep && !in_session {
            return refuse("processes can only be kept in a session");
        }
        Ok(())
    }
}

fn of_mount(mount: &Mount) -> Result<(), JailError> {
    let target = mount.target();
    in_sandbox("target", target)?;
    if target == Path::new("/") {
        return refuse("only the root can be mounted at /");
    }
    match mount {
        Mount::Bind(bind) => on_host("source", &bind.source),
        Mount::Overlay(overlay) => layers(overlay),
        Mount::Tmpfs(tmpfs) if tmpfs.size == 0 => refuse(format!("{} has size 0", target.display())),
        Mount::Tmpfs(tmpfs) if tmpfs.mode > 0o1777 => {
            refuse(format!("{} has the permissions {:o}", target.display(), tmpfs.mode))
        }
        Mount::Tmpfs(_) | Mount::Proc | Mount::Dev => Ok(()),
    }
}

fn layers(overlay: &Overlay) -> Result<(), JailError> {
    let at = overlay.target.display();
    if overlay.lowers.is_empty() || overlay.lowers.len() > MAX_LAYERS {
        return refuse(format!("the overlay at {at} needs 1 to {MAX_LAYERS} lower layers"));
    }
    if overlay.upper.is_some() != overlay.work.is_some() {
        return refuse(format!("the overlay at {at} needs both an upper and a work directory, or neither"));
    }
    if overlay.upper.is_none() && !overlay.readonly {
        return refuse(format!("the overlay at {at} is writable and has no upper directory"));
    }
    overlay
        .lowers
        .iter()
        .chain(&overlay.upper)
        .chain(&overlay.work)
        .try_for_each(|path| on_host("layer", path))
}

fn on_host(what: &str, path: &Path) -> Result<(), JailError> {
    normal(what, path, "on the host")
}

fn in_sandbox(what: &str, path: &Path) -> Result<(), JailError> {
    normal(what, path, "in the sandbox")
}

fn normal(what: &str, path: &Path, place: &str) -> Result<(), JailError> {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) || path.as_os_str().as_bytes().contains(&0) {
        return refuse(format!("the {what} {path:?} is not an absolute path {place} without .."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Bind, Tmpfs};
    use super::*;

    fn why(spec: &Spec) -> String {
        spec.check().unwrap_err().to_string()
    }

    fn overlay() -> Overlay {
        Overlay {
            lowers: vec!["/a".into()],
            upper: Some("/u".into()),
            work: Some("/w".into()),
            target: "/workspace".into(),
            readonly: false,
        }
    }

    #[test]
    fn what_a_new_specification_says_is_possible() {
        Spec::new().mount(Bind::writable("/a", "/workspace")).mount(overlay()).check().unwrap();
    }

    #[test]
    fn paths_are_absolute_and_do_not_climb() {
        for (source, target) in
            [("a", "/w"), ("/a/../b", "/w"), ("/a", "w"), ("/a", "/w/../etc"), ("/a", "/"), ("/a\0", "/w")]
        {
            assert!(
                Spec::new().mount(Bind::readonly(source, target)).check().is_err(),
                "{source:?} {target:?}"
            );
        }
        assert!(Command::new(["x"]).cwd("relative").check(false).is_err());
        assert!(Command::new(["x"]).cwd("/a/../b").check(false).is_err());
    }

    #[test]
    fn an_overlay_has_the_layers_it_needs() {
        let refused = [
            Overlay { lowers: vec![], ..overlay() },
            Overlay { work: None, ..overlay() },
            Overlay { upper: None, work: None, ..overlay() },
        ];
        for overlay in refused {
            assert!(Spec::new().mount(overlay.clone()).check().is_err(), "{overlay:?}");
        }
        let two = vec!["/a".into(), "/b".into()];
        Spec::new()
            .mount(Overlay { lowers: two, upper: None, work: None, readonly: true, ..overlay() })
            .check()
            .unwrap();
    }

    #[test]
    fn other_values_are_bounded() {
        assert!(why(&Spec { version: 2, ..Spec::new() }).contains("version 2"));
        assert!(why(&Spec { hostname: "a b".into(), ..Spec::new() }).contains("host name"));
        assert!(why(&Spec { hostname: String::new(), ..Spec::new() }).contains("host name"));
        let mut spec = Spec::new();
        spec.limits.memory = Some(1);
        assert!(why(&spec).contains("memory"));
        spec.limits.memory = None;
        spec.limits.processes = Some(0);
        assert!(why(&spec).contains("zero"));
        assert!(Spec::new().mount(Tmpfs::new("/x").with_size(0)).check().is_err());
    }

    #[test]
    fn a_command_needs_a_program_and_sound_text() {
        assert!(Command::new([""; 0]).check(false).is_err());
        assert!(Command::new([""]).check(false).is_err());
        assert!(Command::new(["a", "b\0"]).check(false).is_err());
        let env = crate::Environment::default().with("A=B", "x");
        assert!(Command::new(["a"]).env(env).check(false).is_err());
        let keep = Command { leftovers: Leftovers::Keep, ..Command::new(["a"]) };
        assert!(keep.check(false).is_err());
        keep.check(true).unwrap();
    }

    #[test]
    fn a_network_namespace_is_given_exactly_when_it_is_used() {
        assert!(Spec::new().check_network(true).is_err());
        let named = Spec { network: Network::Namespace, ..Spec::new() };
        assert!(named.check_network(false).is_err());
        named.check_network(true).unwrap();
    }

    #[test]
    fn a_specification_survives_both_formats() {
        let spec = Spec::new().mount(overlay()).mount(Bind::readonly("/a", "/b"));
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
        let bytes = postcard::to_allocvec(&spec).unwrap();
        assert_eq!(postcard::from_bytes::<Spec>(&bytes).unwrap(), spec);
        let strange = Spec { home: std::ffi::OsStr::from_bytes(b"/\xff").into(), ..Spec::new() };
        let bytes = postcard::to_allocvec(&strange).unwrap();
        assert_eq!(postcard::from_bytes::<Spec>(&bytes).unwrap(), strange);
        assert!(serde_json::to_string(&strange).is_err());
    }
}
