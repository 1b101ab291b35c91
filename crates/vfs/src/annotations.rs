//! Tags and metadata of paths. They belong to a state as its tree does: forks, checkpoints and merges have their own.
//!
//! A set is one value of at most 16 MB, which is stored once however many states have it.

use std::collections::{BTreeMap, BTreeSet};

use agentiso_store::TreePath;
use serde::{Deserialize, Serialize};

use crate::VfsError;

const MAX_ENCODED: usize = 16 << 20;
const MAX_WORD: usize = 255;
const MAX_VALUE: usize = 64 << 10;
const VERSION: u8 = 1;

/// What is noted about one path.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Annotation {
    /// Tags.
    pub tags: BTreeSet<String>,
    /// Values by key.
    pub metadata: BTreeMap<String, String>,
}

impl Annotation {
    fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.metadata.is_empty()
    }
}

/// Tags and metadata of all paths of a state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Annotations {
    by_path: BTreeMap<TreePath, Annotation>,
}

impl Annotations {
    /// Whether nothing is annotated.
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// What is noted about a path.
    pub fn get(&self, path: &TreePath) -> Option<&Annotation> {
        self.by_path.get(path)
    }

    /// All annotated paths.
    pub fn iter(&self) -> impl Iterator<Item = (&TreePath, &Annotation)> {
        self.by_path.iter()
    }

    /// Adds a tag; returns whether it is new.
    pub fn add_tag(&mut self, path: &TreePath, tag: &str) -> Result<bool, VfsError> {
        check_word("tag", tag)?;
        Ok(self.by_path.entry(path.clone()).or_default().tags.insert(tag.to_owned()))
    }

    /// Removes a tag; returns whether it was there.
    pub fn remove_tag(&mut self, path: &TreePath, tag: &str) -> bool {
        self.edit(path, |annotation| annotation.tags.remove(tag))
    }

    /// Sets a value.
    pub fn set(&mut self, path: &TreePath, key: &str, value: &str) -> Result<(), VfsError> {
        check_word("key", key)?;
        if value.len() > MAX_VALUE {
            return Err(VfsError::invalid("the value", format_args!("it is longer than {MAX_VALUE} bytes")));
        }
        self.by_path.entry(path.clone()).or_default().metadata.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Removes a value; returns whether it was there.
    pub fn unset(&mut self, path: &TreePath, key: &str) -> bool {
        self.edit(path, |annotation| annotation.metadata.remove(key).is_some())
    }

    /// Gives every path with one tag another one instead, or none; returns how many had it.
    pub fn replace_tag(&mut self, old: &str, new: Option<&str>) -> Result<u64, VfsError> {
        if let Some(new) = new {
            check_word("tag", new)?;
        }
        let mut count = 0;
        for annotation in self.by_path.values_mut() {
            if annotation.tags.remove(old) {
                count += 1;
                annotation.tags.extend(new.map(str::to_owned));
            }
        }
        self.by_path.retain(|_, annotation| !annotation.is_empty());
        Ok(count)
    }

    /// Forgets a path and everything below it.
    pub fn remove_below(&mut self, path: &TreePath) {
        self.by_path.retain(|one, _| !one.is_within(path));
    }

    /// Moves or copies what is noted about a path and everything below it.
    pub fn transfer(&mut self, from: &TreePath, to: &TreePath, is_move: bool) {
        let taken: Vec<_> = self
            .by_path
            .iter()
            .filter(|(path, _)| path.is_within(from))
            .map(|(path, annotation)| (rebased(path, from, to), annotation.clone()))
            .collect();
        if is_move {
            self.remove_below(from);
        }
        self.remove_below(to);
        self.by_path.extend(taken);
    }

    /// Takes what another set has at and below a path in place of what this one has.
    pub fn take_from(&mut self, other: &Self, path: &TreePath) {
        self.remove_below(path);
        let taken = other.by_path.iter().filter(|(one, _)| one.is_within(path));
        self.by_path.extend(taken.map(|(path, annotation)| (path.clone(), annotation.clone())));
    }

    /// Adds annotations, in place of those that the paths have.
    pub(crate) fn insert_all(&mut self, all: impl IntoIterator<Item = (TreePath, Annotation)>) {
        self.by_path.extend(all);
    }

    /// Forgets paths that do not exist any more.
    pub fn retain(
        &mut self,
        mut exists: impl FnMut(&TreePath) -> Result<bool, VfsError>,
    ) -> Result<(), VfsError> {
        let mut gone = Vec::new();
        for path in self.by_path.keys() {
            if !exists(path)? {
                gone.push(path.clone());
            }
        }
        for path in gone {
            self.by_path.remove(&path);
        }
        Ok(())
    }

    /// Adds what `theirs` changed since `base`. Tags are merged one by one; of two values for one key, ours is kept.
    pub fn merge(base: &Self, ours: &Self, theirs: &Self) -> Self {
        let mut merged = ours.clone();
        let empty = Annotation::default();
        let paths: BTreeSet<_> = base.by_path.keys().chain(theirs.by_path.keys()).collect();
        for path in paths {
            let old = base.get(path).unwrap_or(&empty);
            let new = theirs.get(path).unwrap_or(&empty);
            if old == new {
                continue;
            }
            let mine = merged.by_path.entry(path.clone()).or_default();
            for tag in old.tags.symmetric_difference(&new.tags) {
                if new.tags.contains(tag) {
                    mine.tags.insert(tag.clone());
                } else {
                    mine.tags.remove(tag);
                }
            }
            let keys: BTreeSet<_> = old.metadata.keys().chain(new.metadata.keys()).collect();
            for key in keys {
                let (before, after) = (old.metadata.get(key), new.metadata.get(key));
                let is_ours_changed = mine.metadata.get(key) != before;
                if before == after || is_ours_changed {
                    continue;
                }
                match after {
                    Some(value) => drop(mine.metadata.insert(key.clone(), value.clone())),
                    None => drop(mine.metadata.remove(key)),
                }
            }
            if mine.is_empty() {
                merged.by_path.remove(path);
            }
        }
        merged
    }

    fn edit(&mut self, path: &TreePath, edit: impl FnOnce(&mut Annotation) -> bool) -> bool {
        let Some(annotation) = self.by_path.get_mut(path) else { return false };
        let is_changed = edit(annotation);
        if annotation.is_empty() {
            self.by_path.remove(path);
        }
        is_changed
    }

    /// A version, then paths with their annotations.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, VfsError> {
        let list: Vec<(&[u8], &Annotation)> =
            self.by_path.iter().map(|(path, annotation)| (path.as_bytes(), annotation)).collect();
        let encoded = postcard::to_extend(&list, vec![VERSION])
            .map_err(|error| VfsError::invalid("the tags and metadata", error))?;
        if encoded.len() > MAX_ENCODED {
            return Err(VfsError::invalid(
                "the tags and metadata",
                "the vault would have more than 16 MB of them",
            ));
        }
        Ok(encoded)
    }

    /// Decodes a set; nothing if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let body = bytes.strip_prefix(&[VERSION])?;
        let list: Vec<(Vec<u8>, Annotation)> = postcard::from_bytes(body).ok()?;
        let parse = |(path, annotation)| Some((TreePath::parse(path).ok()?, annotation));
        Some(Self { by_path: list.into_iter().map(parse).collect::<Option<_>>()? })
    }
}

fn check_word(kind: &str, word: &str) -> Result<(), VfsError> {
    if word.is_empty() || word.len() > MAX_WORD || word.chars().any(char::is_control) {
        let reason = "it must have 1 to 255 bytes without control characters";
        return Err(VfsError::invalid(
            format!("the {kind} {:?}", word.chars().take(80).collect::<String>()),
            reason,
        ));
    }
    Ok(())
}

/// A path at or below `from`, moved to `to`.
pub(crate) fn rebased(path: &TreePath, from: &TreePath, to: &TreePath) -> TreePath {
    let depth = from.depth();
    path.components().skip(depth).fold(to.clone(), |path, name| path.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn tagged(pairs: &[(&str, &str)]) -> Annotations {
        let mut set = Annotations::default();
        for (at, tag) in pairs {
            set.add_tag(&path(at), tag).unwrap();
        }
        set
    }

    #[test]
    fn the_format_is_frozen() {
        let mut set = tagged(&[("a/b", "x")]);
        set.set(&path("c"), "key", "value").unwrap();
        let bytes = set.encode().unwrap();
        assert_eq!(bytes, b"\x01\x02\x03a/b\x01\x01x\x00\x01c\x00\x01\x03key\x05value");
        assert_eq!(Annotations::decode(&bytes), Some(set));
        assert_eq!(Annotations::decode(b"\x02\x00"), None);
        assert_eq!(Annotations::decode(b"\x01\x05"), None);
    }

    #[test]
    fn annotations_follow_a_directory_and_leave_no_other_behind() {
        let mut set = tagged(&[("a/x", "1"), ("ab", "2"), ("c/x", "old")]);
        set.transfer(&path("a"), &path("c"), true);
        assert_eq!(set, tagged(&[("c/x", "1"), ("ab", "2")]));
    }

    #[test]
    fn merging_keeps_the_tags_of_both_sides() {
        let base = tagged(&[("f", "base"), ("f", "gone")]);
        let ours = tagged(&[("f", "base"), ("f", "gone"), ("f", "ours")]);
        let theirs = tagged(&[("f", "base"), ("f", "theirs"), ("g", "new")]);
        let merged = Annotations::merge(&base, &ours, &theirs);
        assert_eq!(merged, tagged(&[("f", "base"), ("f", "ours"), ("f", "theirs"), ("g", "new")]));
        assert_eq!(Annotations::merge(&base, &base, &theirs), theirs);
        assert_eq!(Annotations::merge(&base, &ours, &base), ours);
    }

    #[test]
    fn an_empty_annotation_leaves_nothing() {
        let mut set = tagged(&[("f", "t")]);
        assert!(set.remove_tag(&path("f"), "t") && !set.remove_tag(&path("f"), "t"));
        assert!(set.is_empty());
        assert!(set.add_tag(&path("f"), "a\nb").is_err());
    }
}
