//! A kernel that was built and is not tested yet.

use std::path::PathBuf;

use super::BuildError;
use super::place::Place;
use crate::kernel::Kernel;
use crate::kernel::choice::choose;
use crate::kernel::prepare::settle;
use crate::partial::PartialDir;

/// A built kernel that is not selected yet. Dropping it removes it, but not the build directory.
#[derive(Debug)]
pub struct Candidate {
    pub(super) kernel: Kernel,
    pub(super) partial: PartialDir,
    pub(super) directory: PathBuf,
    pub(super) name: String,
    pub(super) place: Place,
}

impl Candidate {
    /// The kernel, where it can be booted for a trial.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Selects it and removes the build directory.
    pub fn accept(self) -> Result<Kernel, BuildError> {
        let kernel = settle(&self.partial, &self.directory.join(&self.name))?;
        choose(&self.directory, &kernel)?;
        self.place.remove();
        Ok(kernel)
    }
}
