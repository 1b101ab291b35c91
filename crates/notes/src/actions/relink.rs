//! Rewrites the links of one note for a move.

use crate::config::NotesConfig;
use crate::error::NotesError;
use crate::front_matter::block;
use crate::index::{Resolver, Way, relative};
use crate::markdown::{Link, LinkKind, encode, links, outline};

/// A file that moves, and how links are resolved before and after that.
pub(super) struct Relinker<'i> {
    pub(super) config: &'i NotesConfig,
    pub(super) from: &'i str,
    pub(super) to: &'i str,
    pub(super) before: Resolver<'i>,
    pub(super) after: Resolver<'i>,
}

/// The links of a note after a move.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Relinked {
    pub(super) text: String,
    /// Number of links that mean the moved file.
    pub(super) meant: usize,
    /// Number of links that were rewritten.
    pub(super) rewritten: usize,
    /// Number of links that no longer mean the same file, because their syntax cannot express the new path.
    pub(super) broken: usize,
}

impl Relinker<'_> {
    /// Rewrites the links that mean the moved file and, in the moved note itself, those that would mean another file from
    /// its new place. All other bytes stay.
    pub(super) fn relink(&mut self, source: &str, text: &str) -> Result<Relinked, NotesError> {
        let is_moved = source == self.from;
        let new_source = if is_moved { self.to } else { source }.to_owned();
        let mut relinked = Relinked::default();
        let mut done = 0;
        for link in read_links(text) {
            let is_wiki = link.kind == LinkKind::Wiki;
            let Some(old) = self.before.resolve(source, &link.target, is_wiki)? else { continue };
            if !is_moved && old.path != self.from {
                continue;
            }
            relinked.meant += usize::from(old.path == self.from);
            let target = if old.path == self.from { self.to.to_owned() } else { old.path.clone() };
            let now = self.after.resolve(&new_source, &link.target, is_wiki)?;
            // A relative link stays one, although Obsidian would find the note by its name: other programs would not.
            if now.is_some_and(|now| now.path == target && (old.way != Way::Relative || now.way == old.way)) {
                continue;
            }
            match self.form(source, &new_source, &link, old.way, &old.path, &target)? {
                Some(form) => {
                    relinked.text.push_str(text.get(done..link.place.start).unwrap_or_default());
                    relinked.text.push_str(&form);
                    done = link.place.end;
                    relinked.rewritten += 1;
                }
                None => relinked.broken += 1,
            }
        }
        relinked.text.push_str(text.get(done..).unwrap_or_default());
        Ok(relinked)
    }

    fn means(&mut self, source: &str, text: &str, is_wiki: bool, target: &str) -> Result<bool, NotesError> {
        Ok(self.after.resolve(source, text, is_wiki)?.is_some_and(|found| found.path == target))
    }

    /// How a link is written to mean the target, in the manner it was written before.
    fn form(
        &mut self,
        source: &str,
        new_source: &str,
        link: &Link,
        way: Way,
        old: &str,
        new: &str,
    ) -> Result<Option<String>, NotesError> {
        let is_wiki = link.kind == LinkKind::Wiki;
        let has_extension = self.config.strip_extension(&link.target).is_some();
        let bare = if has_extension { new } else { self.config.strip_extension(new).unwrap_or(new) };
        let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let first = match way {
            Way::Relative => {
                let path = relative(&folder(new_source), bare);
                let is_dotted = link.target.starts_with("./") || (is_wiki && !path.starts_with("../"));
                if is_dotted && !path.starts_with("../") { format!("./{path}") } else { path }
            }
            Way::Absolute => format!("/{bare}"),
            Way::Name => {
                let shortest = self.before.shortest(source, old, has_extension, is_wiki)?;
                let full = if has_extension { old } else { self.config.strip_extension(old).unwrap_or(old) };
                if link.target != shortest && link.target.eq_ignore_ascii_case(full) {
                    bare.to_owned()
                } else {
                    self.after.shortest(new_source, new, has_extension, is_wiki)?
                }
            }
        };
        // Where that is ambiguous: more and more explicit.
        for form in [first, bare.to_owned(), new.to_owned(), format!("/{new}")] {
            if let Some(written) = encode(&form, link.kind)
                && self.means(new_source, &form, is_wiki, new)?
            {
                return Ok(Some(written));
            }
        }
        Ok(None)
    }

    /// Whether an earlier text is the same as a new one but for the spelling of links that mean the same files after the
    /// move. Links of the earlier text that led nowhere may do so again.
    pub(super) fn is_equivalent(
        &mut self,
        source: &str,
        earlier: &str,
        current: &str,
        new: &str,
    ) -> Result<bool, NotesError> {
        let [old_links, current_links, new_links] = [earlier, current, new].map(read_links);
        let is_same_text = without(earlier, &old_links) == without(new, &new_links);
        if !is_same_text || old_links.len() != new_links.len() || old_links.len() != current_links.len() {
            return Ok(false);
        }
        for ((old, current), new) in old_links.iter().zip(&current_links).zip(&new_links) {
            let meaning = self.after.resolve(source, &old.target, old.kind == LinkKind::Wiki)?;
            let wanted = self.after.resolve(source, &new.target, new.kind == LinkKind::Wiki)?;
            let is_same = match (meaning, wanted) {
                (Some(meaning), Some(wanted)) => meaning.path == wanted.path,
                (None, _) => old.target == current.target,
                (Some(_), None) => false,
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read_links(text: &str) -> Vec<Link> {
    let body = block(text).map_or(0, |block| block.span.end);
    links(text, body, &outline(text, body))
}

/// A text without the targets of its links.
fn without(text: &str, links: &[Link]) -> String {
    let mut rest = String::with_capacity(text.len());
    let mut done = 0;
    for link in links {
        rest.push_str(text.get(done..link.place.start).unwrap_or_default());
        done = link.place.end;
    }
    rest.push_str(text.get(done..).unwrap_or_default());
    rest
}
