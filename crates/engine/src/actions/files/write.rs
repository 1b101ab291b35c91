//! Writing, editing, moving and removing files.

use agentiso_core::action::{
    Direction, DirectoryMade, Edit, Encoding, FileDelete, FileDeleted, FileEdit, FileEdited, FileMkdir,
    FileMove, FileMoved, FileTransfer, FileTransferred, FileWrite, FileWritten,
};
use agentiso_core::ports::link::{ErrorKind, Link, LinkError, WriteOptions};
use agentiso_core::{Code, Failure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::act::Context;
use crate::{Access, Perform};

/// The most that is written or edited at once.
pub(super) const LARGEST: usize = 16 << 20;
const LONGEST_PATH: usize = 4096;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;

impl Perform for FileWrite {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileWritten, Failure> {
        absolute(&self.path)?;
        let mode = self.mode.as_deref().map(octal).transpose()?;
        let content = match self.encoding {
            None | Some(Encoding::Text) => self.content.into_bytes(),
            Some(Encoding::Base64) => STANDARD.decode(&self.content).map_err(|error| {
                Failure::new(Code::InvalidArgument, format!("content is not base64: {error}"))
            })?,
        };
        if content.len() > LARGEST {
            return Err(too_large(&self.path, content.len() as u64));
        }
        let guest = context.guest().await?;
        let options = WriteOptions { mode, append: self.append, parents: true };
        let bytes = write(&guest, &self.path, options, &content).await?;
        Ok(FileWritten { path: self.path, bytes })
    }

    fn changed(outcome: &FileWritten) -> Option<String> {
        Some(outcome.path.clone())
    }
}

async fn write(guest: &Link, path: &str, options: WriteOptions, content: &[u8]) -> Result<u64, Failure> {
    let about = |error| about_path(error, path);
    let mut file = guest.write_file(path.as_bytes(), options).await.map_err(about)?;
    file.write(content).await.map_err(about)?;
    file.finish().await.map_err(about)
}

impl Perform for FileEdit {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileEdited, Failure> {
        absolute(&self.path)?;
        let edits = edits(&self)?;
        let guest = context.guest().await?;
        let text = super::read::whole_text(&guest, &self.path).await?;
        let Applied { text, replacements, matches } = apply(&self.path, text, &edits)?;
        let options = WriteOptions { mode: None, append: false, parents: false };
        let size = write(&guest, &self.path, options, text.as_bytes()).await?;
        Ok(FileEdited { path: self.path, replacements, matches, size })
    }

    fn changed(outcome: &FileEdited) -> Option<String> {
        Some(outcome.path.clone())
    }
}

fn edits(edit: &FileEdit) -> Result<Vec<Edit>, Failure> {
    let one = match (&edit.old_string, &edit.new_string) {
        (Some(old), Some(new)) => {
            let (replace_all, expect_unique) = (edit.replace_all, edit.expect_unique);
            Some(Edit { old_string: old.clone(), new_string: new.clone(), replace_all, expect_unique })
        }
        (None, None) => None,
        _ => {
            return Err(Failure::new(Code::InvalidArgument, "old_string and new_string belong together"));
        }
    };
    match (one, edit.edits.is_empty()) {
        (Some(one), true) => Ok(vec![one]),
        (None, false) => Ok(edit.edits.clone()),
        (Some(_), false) => Err(Failure::new(Code::InvalidArgument, "give old_string or edits, not both")),
        (None, true) => Err(Failure::new(Code::InvalidArgument, "old_string and new_string are missing")),
    }
}

/// A text after all its edits.
#[derive(Debug, Eq, PartialEq)]
struct Applied {
    text: String,
    replacements: usize,
    matches: usize,
}

/// Makes all replacements, or none.
fn apply(path: &str, mut text: String, edits: &[Edit]) -> Result<Applied, Failure> {
    let (mut replacements, mut matches) = (0, 0);
    for (number, edit) in (1..).zip(edits) {
        let which = if edits.len() > 1 { format!(" of edit {number}") } else { String::new() };
        if edit.old_string.is_empty() {
            return Err(Failure::new(Code::InvalidArgument, format!("old_string{which} is empty"))
                .with_remedy("use file_write to write a whole file"));
        }
        if edit.old_string == edit.new_string {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("old_string and new_string{which} are the same"),
            ));
        }
        let found = text.matches(&edit.old_string).count();
        match found {
            0 => {
                return Err(Failure::new(
                    Code::EditMismatch,
                    format!("old_string{which} is not in {path}; nothing was changed"),
                )
                .with_remedy("read the file and copy the text exactly, white space too"));
            }
            2.. if edit.expect_unique && !edit.replace_all => {
                return Err(Failure::new(
                    Code::EditMismatch,
                    format!("old_string{which} is in {path} {found} times; nothing was changed"),
                )
                .with_remedy("give more of the text around it, or set replace_all"));
            }
            _ => {
                let times = if edit.replace_all { found } else { 1 };
                // Computed before it is made: a short edit can ask for gigabytes.
                let grown = times.saturating_mul(edit.new_string.len().saturating_sub(edit.old_string.len()));
                if text.len().saturating_add(grown) > LARGEST {
                    return Err(too_large(path, text.len().saturating_add(grown) as u64));
                }
                text = text.replacen(&edit.old_string, &edit.new_string, times);
                replacements += times;
                matches += found;
            }
        }
    }
    Ok(Applied { text, replacements, matches })
}

impl Perform for FileMove {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileMoved, Failure> {
        absolute(&self.path)?;
        absolute(&self.new_path)?;
        let guest = context.guest().await?;
        let moved = guest.rename(self.path.as_bytes(), self.new_path.as_bytes(), self.overwrite).await;
        moved.map_err(|error| about_path(error, &format!("{} or {}", self.path, self.new_path)))?;
        Ok(FileMoved { from: self.path, to: self.new_path })
    }

    fn changed(outcome: &FileMoved) -> Option<String> {
        Some(format!("{} -> {}", outcome.from, outcome.to))
    }
}

impl Perform for FileDelete {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileDeleted, Failure> {
        absolute(&self.path)?;
        let guest = context.guest().await?;
        let removed = guest.remove(self.path.as_bytes(), self.recursive).await;
        removed.map_err(|error| about_path(error, &self.path))?;
        Ok(FileDeleted { path: self.path, deleted: true })
    }

    fn changed(outcome: &FileDeleted) -> Option<String> {
        Some(outcome.path.clone())
    }
}

impl Perform for FileMkdir {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<DirectoryMade, Failure> {
        absolute(&self.path)?;
        let mode = self.mode.as_deref().map(octal).transpose()?;
        let guest = context.guest().await?;
        let made = guest.mkdir(self.path.as_bytes(), mode, true).await;
        made.map_err(|error| about_path(error, &self.path))?;
        Ok(DirectoryMade { path: self.path })
    }

    fn changed(outcome: &DirectoryMade) -> Option<String> {
        Some(outcome.path.clone())
    }
}

impl Perform for FileTransfer {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FileTransferred, Failure> {
        absolute(&self.guest_path)?;
        context.transfer(self).await
    }

    fn changed(outcome: &FileTransferred) -> Option<String> {
        Some(match outcome.direction {
            Direction::Upload => outcome.guest_path.clone(),
            Direction::Download => outcome.host_path.clone(),
        })
    }
}

/// Refuses a path that is not one from the root.
pub(in crate::actions) fn absolute(path: &str) -> Result<(), Failure> {
    if path.starts_with('/') && !path.contains('\0') && path.len() <= LONGEST_PATH {
        return Ok(());
    }
    Err(Failure::new(
        Code::InvalidArgument,
        format!("{:?} is not an absolute path", crate::output::cut(path, 200)),
    )
    .with_remedy("begin it with /; it has at most 4096 bytes"))
}

/// Permission bits from `0644`, `644` or `0o644`.
pub(super) fn octal(mode: &str) -> Result<u32, Failure> {
    let digits = mode.strip_prefix("0o").unwrap_or(mode);
    match u32::from_str_radix(digits, 8) {
        Ok(bits) if bits <= 0o7777 && !digits.starts_with('+') => Ok(bits),
        _ => Err(Failure::new(Code::InvalidArgument, format!("mode {mode:?} is not octal permission bits"))
            .with_remedy("for example 0644 or 755")),
    }
}

pub(super) fn too_large(path: &str, bytes: u64) -> Failure {
    Failure::new(Code::FileTooLarge, format!("{path}: {bytes} bytes are more than the {LARGEST} that fit"))
        .with_remedy("use file_transfer, or a command in the workspace")
}

/// A refusal of the agent's, about a path.
pub(crate) fn about_path(error: LinkError, path: &str) -> Failure {
    let LinkError::Guest(refused) = &error else { return error.into() };
    let (code, message, remedy) = match refused.kind {
        _ if refused.errno == Some(ENOTDIR) => (
            Code::NotADirectory,
            format!("{path} is not a directory, or lies below something that is not one"),
            "read a file with file_read; list the directory it is in with file_list",
        ),
        _ if refused.errno == Some(EISDIR) => (
            Code::InvalidArgument,
            format!("{path} is a directory"),
            "list it with file_list, or give the path of a file in it",
        ),
        ErrorKind::NotFound => {
            (Code::FileNotFound, format!("there is no {path}"), "look with file_list or file_glob")
        }
        ErrorKind::Exists => {
            (Code::FileExists, format!("{path} is there already"), "choose another path, or say overwrite")
        }
        ErrorKind::Denied => {
            return Failure::new(Code::PermissionDenied, format!("{path}: {}", refused.message));
        }
        ErrorKind::Invalid if refused.message.ends_with("is not a regular file") => (
            Code::InvalidArgument,
            format!("{path} is not a regular file"),
            "list a directory with file_list; use a command for devices, pipes and sockets",
        ),
        ErrorKind::Invalid => {
            return Failure::new(Code::InvalidArgument, format!("{path}: {}", refused.message));
        }
        _ => return error.into(),
    };
    Failure::new(code, message).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str, replace_all: bool) -> Edit {
        Edit { old_string: old.to_owned(), new_string: new.to_owned(), replace_all, expect_unique: false }
    }

    fn applied(text: &str, replacements: usize, matches: usize) -> Applied {
        Applied { text: text.to_owned(), replacements, matches }
    }

    #[test]
    fn an_edit_that_is_not_clear_changes_nothing() {
        let text = || "a b a".to_owned();
        for (edits, code) in [
            (vec![edit("c", "d", false)], Code::EditMismatch),
            (vec![Edit { expect_unique: true, ..edit("a", "d", false) }], Code::EditMismatch),
            (vec![edit("", "d", true)], Code::InvalidArgument),
            (vec![edit("a", "a", true)], Code::InvalidArgument),
            (vec![edit("b", "c", false), edit("b", "d", false)], Code::EditMismatch),
        ] {
            assert_eq!(apply("/f", text(), &edits).unwrap_err().code(), code, "{edits:?}");
        }
        assert_eq!(apply("/f", text(), &[edit("b", "c", false)]).unwrap(), applied("a c a", 1, 1));
        assert_eq!(apply("/f", text(), &[edit("a", "", true)]).unwrap(), applied(" b ", 2, 2));
        let both = [edit("b", "c", false), edit("c a", "!", false)];
        assert_eq!(apply("/f", text(), &both).unwrap(), applied("a !", 2, 2));
    }

    #[test]
    fn of_several_matches_the_first_is_replaced_and_all_are_counted() {
        let text = || "a b a".to_owned();
        assert_eq!(apply("/f", text(), &[edit("a", "c", false)]).unwrap(), applied("c b a", 1, 2));
        let unique = Edit { expect_unique: true, ..edit("b", "c", false) };
        assert_eq!(apply("/f", text(), &[unique]).unwrap(), applied("a c a", 1, 1));
    }

    #[test]
    fn an_edit_that_would_grow_beyond_the_limit_is_refused_before_it_is_made() {
        let text = "a".repeat(LARGEST);
        let explosive = edit("a", &"b".repeat(1 << 20), true);
        assert_eq!(apply("/f", text, &[explosive]).unwrap_err().code(), Code::FileTooLarge);
    }

    #[test]
    fn a_file_where_a_directory_is_needed_is_told_from_a_missing_one() {
        let refused = |kind, errno| {
            let message = "listing: refused".to_owned();
            LinkError::Guest(agentiso_core::ports::link::GuestError { kind, errno: Some(errno), message })
        };
        assert_eq!(about_path(refused(ErrorKind::NotFound, ENOTDIR), "/f").code(), Code::NotADirectory);
        assert_eq!(about_path(refused(ErrorKind::NotFound, 2), "/f").code(), Code::FileNotFound);
        let directory = about_path(refused(ErrorKind::Invalid, EISDIR), "/d");
        assert_eq!((directory.code(), directory.message()), (Code::InvalidArgument, "/d is a directory"));
        let message = "/d is not a regular file".to_owned();
        let refused =
            agentiso_core::ports::link::GuestError { kind: ErrorKind::Invalid, errno: None, message };
        let directory = about_path(LinkError::Guest(refused), "/d");
        assert_eq!(directory.message(), "/d is not a regular file");
        assert!(directory.remedy().unwrap().contains("file_list"));
    }

    #[test]
    fn permission_bits_are_octal_in_all_its_spellings() {
        for (text, bits) in [("0644", 0o644), ("755", 0o755), ("0o600", 0o600), ("4755", 0o4755), ("0", 0)] {
            assert_eq!(octal(text).unwrap(), bits);
        }
        for bad in ["", "abc", "0x1ff", "888", "77777", "-1", "+644", "0o"] {
            assert!(octal(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_replaced_once_is_replaced_exactly(before in "[ab]{0,20}", after in "[ab]{0,20}", new in ".{0,20}") {
            prop_assume!(new != "XYZ");
            let text = format!("{before}XYZ{after}");
            let changed = apply("/f", text, &[edit("XYZ", &new, false)]).unwrap();
            prop_assert_eq!(changed, applied(&format!("{before}{new}{after}"), 1, 1));
        }
    }
}
