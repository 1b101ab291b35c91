//! The paths of an installation.

use std::env;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

/// The parts of the environment that determine paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    /// Whether the process runs as root.
    pub root: bool,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$AGENTISO_HOME`.
    pub agentiso_home: Option<PathBuf>,
    /// `$AGENTISO_CONFIG`.
    pub agentiso_config: Option<PathBuf>,
    /// `$XDG_DATA_HOME`.
    pub xdg_data_home: Option<PathBuf>,
    /// `$XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
}

/// The directories and files of one installation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Paths {
    /// The data directory.
    pub home: PathBuf,
    /// Sockets and other files that do not survive a reboot of the host.
    pub run_dir: PathBuf,
    /// The configuration file. It may not exist.
    pub config_file: PathBuf,
    /// Whether the user named the configuration file, so that it must exist.
    pub config_named: bool,
}

/// No data directory could be determined.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no data directory: neither AGENTISO_HOME, XDG_DATA_HOME nor HOME is an absolute path")]
pub struct PathsError;

impl Explain for PathsError {
    fn code(&self) -> Code {
        Code::InvalidConfig
    }

    fn remedy(&self) -> Option<String> {
        Some("set AGENTISO_HOME to a directory that agentiso may write to".to_owned())
    }
}

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        let var = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG specification says to ignore relative paths.
        let absolute = |name| var(name).filter(|path| path.is_absolute());
        Self {
            root: rustix::process::geteuid().is_root(),
            home: absolute("HOME"),
            agentiso_home: var("AGENTISO_HOME").and_then(|path| std::path::absolute(path).ok()),
            agentiso_config: var("AGENTISO_CONFIG").and_then(|path| std::path::absolute(path).ok()),
            xdg_data_home: absolute("XDG_DATA_HOME"),
            xdg_runtime_dir: absolute("XDG_RUNTIME_DIR"),
            xdg_config_home: absolute("XDG_CONFIG_HOME"),
        }
    }
}

impl Paths {
    /// The paths for this process. `config` is the file named on the command line.
    pub fn of_process(config: Option<&Path>) -> Result<Self, PathsError> {
        // Make it absolute, because the daemon has another working directory.
        let config = config.and_then(|path| std::path::absolute(path).ok());
        Self::resolve(&Environment::of_process(), config.as_deref(), &|path| path.exists())
    }

    /// Determines the paths from the environment, the file named on the command line, and which files exist.
    pub fn resolve(
        env: &Environment,
        config: Option<&Path>,
        exists: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, PathsError> {
        let home = data_home(env)?;
        let run_dir = match (&env.agentiso_home, &env.xdg_runtime_dir) {
            (Some(home), _) => home.join("run"),
            (None, _) if env.root => PathBuf::from("/run/agentiso"),
            (None, Some(runtime)) => runtime.join("agentiso"),
            (None, None) => home.join("run"),
        };
        let named = config.map(Path::to_owned).or_else(|| env.agentiso_config.clone());
        let config_named = named.is_some();
        let config_file = named.unwrap_or_else(|| found_config(env, exists));
        Ok(Self { home, run_dir, config_file, config_named })
    }

    /// Root file systems, one directory each.
    pub fn images_dir(&self) -> PathBuf {
        self.home.join("images")
    }

    /// The operator's secrets and their key.
    pub fn secrets_dir(&self) -> PathBuf {
        self.home.join("secrets")
    }

    /// The guest kernel and its initramfs.
    pub fn kernel_dir(&self) -> PathBuf {
        self.home.join("kernel")
    }

    /// Build directory of guest kernels.
    pub fn kernel_build_dir(&self) -> PathBuf {
        self.cache_dir().join("kernel-build")
    }

    /// Memory images of booted guests.
    pub fn templates_dir(&self) -> PathBuf {
        self.home.join("templates")
    }

    /// Disks and logs of machines, one directory each.
    pub fn machines_dir(&self) -> PathBuf {
        self.home.join("machines")
    }

    /// Disks of workspaces and snapshots, one file each.
    pub fn disks_dir(&self) -> PathBuf {
        self.home.join("disks")
    }

    /// Sockets and logs of the machines of workspaces.
    pub fn workspaces_dir(&self) -> PathBuf {
        self.home.join("workspaces")
    }

    /// Memory of snapshots, one directory each.
    pub fn memory_dir(&self) -> PathBuf {
        self.home.join("memory")
    }

    /// Base files that the memory of machines and snapshots refers to.
    pub fn bases_dir(&self) -> PathBuf {
        self.home.join("bases")
    }

    /// Disks and memory images without a database entry, kept until the user decides about them.
    pub fn lost_dir(&self) -> PathBuf {
        self.home.join("lost")
    }

    /// Pending background work.
    pub fn maintenance_dir(&self) -> PathBuf {
        self.home.join("maintenance")
    }

    /// The SQLite database.
    pub fn state_file(&self) -> PathBuf {
        self.home.join("state.db")
    }

    /// Files that can be recreated at any time.
    pub fn cache_dir(&self) -> PathBuf {
        self.home.join("cache")
    }
}

fn data_home(env: &Environment) -> Result<PathBuf, PathsError> {
    if let Some(home) = &env.agentiso_home {
        return Ok(home.clone());
    }
    if env.root {
        return Ok(PathBuf::from("/var/lib/agentiso"));
    }
    let share = env.xdg_data_home.clone().or_else(|| env.home.as_ref().map(|home| home.join(".local/share")));
    share.map(|share| share.join("agentiso")).ok_or(PathsError)
}

/// The first configuration file that exists; if none does, the path at which to create one.
///
/// A separate data directory is a separate installation, so its own file comes first.
fn found_config(env: &Environment, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
    let own = env.agentiso_home.as_ref().map(|home| home.join("config.toml"));
    let user = env
        .xdg_config_home
        .clone()
        .or_else(|| env.home.as_ref().map(|home| home.join(".config")))
        .map(|config| config.join("agentiso/config.toml"));
    let system = PathBuf::from("/etc/agentiso/config.toml");
    let candidates = [own.clone(), user.clone(), Some(system.clone())];
    let to_write = own.or(user.filter(|_| !env.root)).unwrap_or(system);
    candidates.into_iter().flatten().find(|path| exists(path)).unwrap_or(to_write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Environment {
        Environment {
            home: Some("/home/u".into()),
            xdg_runtime_dir: Some("/run/user/7".into()),
            ..Environment::default()
        }
    }

    fn resolve(env: &Environment, existing: &[&str]) -> Paths {
        Paths::resolve(env, None, &|path| existing.iter().any(|known| Path::new(known) == path)).unwrap()
    }

    #[test]
    fn an_ordinary_user_gets_the_xdg_directories() {
        let paths = resolve(&user(), &[]);
        assert_eq!(paths.home, Path::new("/home/u/.local/share/agentiso"));
        assert_eq!(paths.run_dir, Path::new("/run/user/7/agentiso"));
        assert_eq!(paths.config_file, Path::new("/home/u/.config/agentiso/config.toml"));
        assert!(!paths.config_named);

        let moved = Environment {
            xdg_data_home: Some("/d".into()),
            xdg_config_home: Some("/c".into()),
            xdg_runtime_dir: None,
            ..user()
        };
        let paths = resolve(&moved, &[]);
        assert_eq!(paths.home, Path::new("/d/agentiso"));
        assert_eq!(paths.run_dir, Path::new("/d/agentiso/run"));
        assert_eq!(paths.config_file, Path::new("/c/agentiso/config.toml"));
    }

    #[test]
    fn root_gets_the_system_directories() {
        let env = Environment { root: true, xdg_data_home: Some("/d".into()), ..user() };
        let paths = resolve(&env, &[]);
        assert_eq!(paths.home, Path::new("/var/lib/agentiso"));
        assert_eq!(paths.run_dir, Path::new("/run/agentiso"));
        assert_eq!(paths.config_file, Path::new("/etc/agentiso/config.toml"));
    }

    #[test]
    fn a_separate_home_is_a_separate_installation_for_root_too() {
        for root in [false, true] {
            let env = Environment { root, agentiso_home: Some("/x".into()), ..user() };
            let paths = resolve(&env, &[]);
            assert_eq!(paths.home, Path::new("/x"));
            assert_eq!(paths.run_dir, Path::new("/x/run"));
            assert_eq!(paths.config_file, Path::new("/x/config.toml"));
        }
    }

    #[test]
    fn the_configuration_is_found_by_flag_then_environment_then_existence() {
        let (mine, system) = ("/home/u/.config/agentiso/config.toml", "/etc/agentiso/config.toml");
        assert_eq!(resolve(&user(), &[mine, system]).config_file, Path::new(mine));
        assert_eq!(resolve(&user(), &[system]).config_file, Path::new(system));

        let env = Environment { agentiso_config: Some("/e.toml".into()), ..user() };
        let from_env = resolve(&env, &[mine, system]);
        assert_eq!((from_env.config_file, from_env.config_named), ("/e.toml".into(), true));

        let flagged = Paths::resolve(&env, Some(Path::new("f.toml")), &|_| true).unwrap();
        assert_eq!((flagged.config_file, flagged.config_named), ("f.toml".into(), true));
    }

    #[test]
    fn without_a_home_the_error_names_the_variable_to_set() {
        let error = Paths::resolve(&Environment::default(), None, &|_| false).unwrap_err();
        assert!(error.remedy().unwrap().contains("AGENTISO_HOME"));
    }

    #[test]
    fn all_data_is_below_the_home() {
        let paths = resolve(&user(), &[]);
        for dir in [
            paths.images_dir(),
            paths.kernel_dir(),
            paths.templates_dir(),
            paths.machines_dir(),
            paths.cache_dir(),
            paths.disks_dir(),
            paths.workspaces_dir(),
            paths.memory_dir(),
            paths.bases_dir(),
            paths.maintenance_dir(),
            paths.lost_dir(),
            paths.state_file(),
        ] {
            assert!(dir.starts_with(&paths.home) && dir != paths.home, "{dir:?}");
        }
    }
}
