//! A file that an archive is written to: complete, or not there.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use tempfile::TempPath;

/// Where an archive goes. Dropping it before it is finished leaves what was there before.
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, and the one beside it that is written first.
    File { path: PathBuf, partial: TempPath },
}

impl Target {
    /// Opens a file, or standard output for `-`.
    pub fn open(path: &Path) -> Result<(Self, Box<dyn Write + Send>), Failure> {
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                let message = "refusing to write an archive to a terminal";
                return Err(Failure::new(Code::InvalidArgument, message)
                    .with_remedy("name a file, or redirect standard output"));
            }
            return Ok((Self::Stdout, Box::new(io::stdout())));
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let made = tempfile::Builder::new().prefix(".agentiso-export-").tempfile_in(directory);
        let (file, partial) = made.map_err(|error| failed(path, &error))?.into_parts();
        Ok((Self::File { path: path.to_owned(), partial }, Box::new(file)))
    }

    /// Makes what was written durable and gives it its name. Returns its size, if it is a file.
    pub fn finish(self, mut out: Box<dyn Write + Send>) -> Result<Option<u64>, Failure> {
        let Self::File { path, partial } = self else {
            return match out.flush() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(failed(Path::new("standard output"), &error))
                }
                _ => Ok(None),
            };
        };
        let finish = || {
            out.flush()?;
            let file = File::open(&partial)?;
            file.sync_all()?;
            let size = file.metadata()?.len();
            partial.persist(&path).map_err(|error| error.error)?;
            Ok(size)
        };
        finish().map(Some).map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("could not write {}: {error}", path.display()))
}
