//! The stages of a build, from the source to a kernel that can be tested.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use agentiso_core::progress::Progress;

use super::place::Place;
use super::settings::{SETTINGS, Taken};
use super::source::{self, Source};
use super::toolchain::Toolchain;
use super::{BuildError, Candidate, group};
use crate::kernel::choice::{BUILT, choose};
use crate::kernel::find::{open, sound};
use crate::kernel::prepare::{Found, stage};
use crate::kernel::{Kernel, KernelSource, strip};
use crate::partial::{PartialDir, sweep};

/// The version of the build: changes whenever the same source, settings and compiler would give another kernel.
const RECIPE: u32 = 1;
/// The disk space for source and objects, with a margin.
const ROOM: u64 = 3 << 30;
/// The disk space for objects.
const ROOM_FOR_OBJECTS: u64 = 1 << 30;
/// The approximate number of files to compile.
const USUAL_FILES: usize = 1600;
const CONFIGURED: &str = "configured";

/// What to build, and where.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// An archive with the source; the distribution's package if absent.
    pub source: Option<PathBuf>,
    /// How many compilers run at once.
    pub jobs: u32,
    /// Where prepared kernels are kept.
    pub kernels: PathBuf,
    /// Where to build.
    pub cache: PathBuf,
}

/// The result of a build.
#[derive(Debug)]
pub enum Outcome {
    /// The same kernel was built before, and is selected now.
    Known(Kernel),
    /// A new kernel, to be tested.
    New(Box<Candidate>),
}

/// Builds a kernel. Setting `cancel` cancels it. Unpacked and compiled files are kept for the next attempt.
pub fn build(
    request: &BuildRequest,
    cancel: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Outcome, BuildError> {
    let tools = Toolchain::find()?;
    fs::create_dir_all(&request.cache).map_err(BuildError::io("create", &request.cache))?;
    // Before anything is fetched, even a list of packages.
    let begun = super::unfinished(&request.cache).is_some();
    require_room(&request.cache, if begun { ROOM_FOR_OBJECTS } else { ROOM })?;
    let lists = sweep(&request.cache).and_then(|()| PartialDir::create(&request.cache, "lists"));
    let lists = lists.map_err(BuildError::io("use", &request.cache))?;
    let source = match &request.source {
        Some(path) => Source::file(path)?,
        None => Source::package(lists.path(), cancel, progress)?,
    };
    build_with(request, &source, &tools, cancel, progress)
}

fn build_with(
    request: &BuildRequest,
    source: &Source,
    tools: &Toolchain,
    cancel: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Outcome, BuildError> {
    open(&request.kernels)?;
    let key = key(source, tools);
    let place = Place::open(&request.cache, &key, cancel, progress)?;
    if let Some(kernel) = known(&request.kernels, &key) {
        choose(&request.kernels, &kernel)?;
        place.remove();
        return Ok(Outcome::Known(kernel));
    }
    if !source::is_there(&place) {
        require_room(place.path(), ROOM)?;
    }
    let tree = source.bring(&place, tools, cancel, progress)?;
    let make = Make { tools, tree: &tree, log: place.path().join("build.log"), cancel, progress };
    if !place.is_done(CONFIGURED) {
        make.configure(place.path())?;
        place.set_done(CONFIGURED)?;
    }
    let vmlinux = make.compile(request.jobs)?;
    let bytes = fs::read(&vmlinux).map_err(BuildError::io("read", &vmlinux))?;
    let found = Found::of(&vmlinux, strip(bytes)?)?;
    let name = format!("{BUILT}{}-{key}", found.version);
    let partial = PartialDir::create(&request.kernels, "built");
    let partial = partial.map_err(BuildError::io("use", &request.kernels))?;
    let kernel = stage(&partial, found, None, KernelSource::Built(source.name()))?;
    let directory = request.kernels.clone();
    Ok(Outcome::New(Box::new(Candidate { kernel, partial, directory, name, place })))
}

/// The key of a kernel: a hash of everything it is built from.
fn key(source: &Source, tools: &Toolchain) -> String {
    let made_of = format!("{RECIPE}\n{}\n{}\n{SETTINGS}", source.identity(), tools.compiler);
    blake3::hash(made_of.as_bytes()).to_hex()[..16].to_owned()
}

fn known(kernels: &Path, key: &str) -> Option<Kernel> {
    sound(kernels, |name| name.starts_with(BUILT) && name.ends_with(key)).pop()
}

fn require_room(path: &Path, needed: u64) -> Result<(), BuildError> {
    let stat = rustix::fs::statvfs(path).map_err(|error| BuildError::io("look at", path)(error.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < needed { Err(BuildError::NoRoom { needed, free, path: path.to_owned() }) } else { Ok(()) }
}

/// `make` in the source.
struct Make<'a> {
    tools: &'a Toolchain,
    tree: &'a Path,
    log: PathBuf,
    cancel: &'a AtomicBool,
    progress: &'a dyn Progress,
}

impl Make<'_> {
    fn configure(&self, place: &Path) -> Result<(), BuildError> {
        self.progress.step("configuring", None);
        let settings = place.join("guest.config");
        fs::write(&settings, SETTINGS).map_err(BuildError::io("write", &settings))?;
        let mut command = self.command()?;
        command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &settings);
        self.run(&mut command, |_| {})?;
        let path = self.tree.join(".config");
        let config = fs::read_to_string(&path).map_err(BuildError::io("read", &path))?;
        let taken = Taken::compare(SETTINGS, &config);
        if !taken.missing().is_empty() {
            return Err(BuildError::Settings { missing: taken.missing() });
        }
        let unknown = match taken.refused.len() {
            0 => String::new(),
            unknown => format!(", {unknown} unknown to this source"),
        };
        self.progress.done(&format!("{} settings{unknown}", taken.taken));
        Ok(())
    }

    /// Compiles what is missing, and returns the kernel.
    fn compile(&self, jobs: u32) -> Result<PathBuf, BuildError> {
        self.progress.step("compiling", None);
        let mut compiled = count_objects(self.tree);
        let mut command = self.command()?;
        command.arg(format!("-j{}", jobs.max(1))).arg("vmlinux");
        self.run(&mut command, |line| {
            if line.starts_with("  ") && line.ends_with(".o") {
                compiled += 1;
                self.progress.note(&format!("{compiled} of about {} files", USUAL_FILES.max(compiled)));
            }
        })?;
        self.progress.done(&format!("{compiled} files"));
        Ok(self.tree.join("vmlinux"))
    }

    fn command(&self) -> Result<Command, BuildError> {
        let mut command = group::command(&self.tools.make)?;
        let ours: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command.env_clear().envs(ours);
        // Headers and libraries may be in other directories, for users who cannot install packages.
        for name in ["HOME", "TMPDIR", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        // Make the build reproducible.
        command.env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970");
        command.env("KBUILD_BUILD_USER", "agentiso").env("KBUILD_BUILD_HOST", "agentiso");
        command.env("KBUILD_BUILD_VERSION", "1").env("SOURCE_DATE_EPOCH", "0");
        command.arg("ARCH=x86_64").current_dir(self.tree);
        Ok(command)
    }

    fn run(&self, command: &mut Command, mut each: impl FnMut(&str)) -> Result<(), BuildError> {
        let mut log = File::options().create(true).append(true).open(&self.log).map_err(self.log_failed())?;
        let mut written: io::Result<()> = Ok(());
        let ended = group::run(&self.tools.make, command, self.cancel, |line| {
            each(line);
            if written.is_ok() {
                written = writeln!(log, "{line}");
            }
        })?;
        written.map_err(self.log_failed())?;
        if ended.status.success() {
            return Ok(());
        }
        let text = ended.text();
        Err(match self.tools.make.failure(ended.status.to_string(), &text) {
            crate::tools::ToolError::Failed { said, .. } => {
                BuildError::Compile { said, log: self.log.clone() }
            }
            other => other.into(),
        })
    }

    fn log_failed(&self) -> impl FnOnce(io::Error) -> BuildError + use<'_> {
        BuildError::io("write", &self.log)
    }
}

/// The number of files compiled by earlier attempts.
fn count_objects(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(|entry| entry.ok())
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => count_objects(&entry.path()),
            Ok(kind) if kind.is_file() => usize::from(entry.path().extension().is_some_and(|end| end == "o")),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests;
