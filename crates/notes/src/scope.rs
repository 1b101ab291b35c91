//! What a caller may see and change.

use crate::error::NotesError;
use crate::path::FolderPath;

/// A view restricted to folders: a member of a team sees the team's folder and what is shared. What is outside does not
/// exist for the caller: it is neither listed nor found, and refusals do not depend on whether it exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scope {
    /// Folders that may be changed.
    writable: Vec<FolderPath>,
    /// Folders that may only be read, in addition.
    readable: Vec<FolderPath>,
}

impl Scope {
    /// Everything.
    pub fn everything() -> Self {
        Self { writable: vec![FolderPath::root()], readable: Vec::new() }
    }

    /// Some folders to change, and others only to read.
    pub fn folders(writable: Vec<FolderPath>, readable: Vec<FolderPath>) -> Self {
        Self { writable, readable }
    }

    /// Whether all notes are visible.
    pub(crate) fn is_everything(&self) -> bool {
        self.visible().any(|folder| folder.as_str().is_empty())
    }

    pub(crate) fn visible(&self) -> impl Iterator<Item = &FolderPath> {
        self.writable.iter().chain(&self.readable)
    }

    /// Whether a note or folder is visible.
    pub fn can_read(&self, path: &str) -> bool {
        self.visible().any(|folder| folder.contains(path))
    }

    /// Whether a note may be changed.
    pub fn can_write(&self, path: &str) -> bool {
        self.writable.iter().any(|folder| folder.contains(path))
    }

    /// Whether a folder leads to something visible.
    pub(crate) fn leads_to(&self, folder: &FolderPath) -> bool {
        self.visible().any(|visible| visible.contains(folder.as_str()) || folder.contains(visible.as_str()))
    }

    pub(crate) fn require_read(&self, path: &str) -> Result<(), NotesError> {
        if self.can_read(path) { Ok(()) } else { Err(self.refusal(path, "readable", self.visible())) }
    }

    pub(crate) fn require_write(&self, path: &str) -> Result<(), NotesError> {
        if self.can_write(path) { Ok(()) } else { Err(self.refusal(path, "writable", self.writable.iter())) }
    }

    fn refusal<'f>(
        &self,
        path: &str,
        right: &'static str,
        folders: impl Iterator<Item = &'f FolderPath>,
    ) -> NotesError {
        let allowed = folders.map(|folder| folder.as_str().to_owned()).collect();
        NotesError::OutOfScope { path: path.to_owned(), right, allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_sees_its_folder_and_reads_what_is_shared() {
        let folder = |text: &str| FolderPath::parse(text).unwrap();
        let scope = Scope::folders(vec![folder("teams/blue")], vec![folder("shared")]);
        assert!(scope.can_write("teams/blue/a.md") && scope.can_read("teams/blue/a.md"));
        assert!(scope.can_read("shared/a.md") && !scope.can_write("shared/a.md"));
        assert!(!scope.can_read("teams/blues/a.md") && !scope.can_read("teams/red/a.md"));
        assert!(scope.leads_to(&folder("teams")) && !scope.leads_to(&folder("teams/red")));
        assert!(Scope::everything().is_everything() && !scope.is_everything());
    }
}
