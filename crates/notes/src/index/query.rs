//! What a search asks for.

use crate::path::FolderPath;

/// Words that say nothing about a note; left out where any word suffices.
const COMMON: &[&str] = &[
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did",
    "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its",
    "me", "my", "not", "of", "on", "or", "our", "should", "so", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "us", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "would", "you", "your",
];

/// A part of a query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Term {
    /// The words, lower case, in order: one, or those of a phrase.
    pub(super) words: Vec<String>,
    /// Whether the last word may go on.
    pub(super) is_prefix: bool,
    pub(super) is_excluded: bool,
}

/// A query in parts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Query {
    pub(super) terms: Vec<Term>,
    /// `tag:` filters, without `#`.
    pub(super) tags: Vec<String>,
    /// `path:` filters.
    pub(super) folders: Vec<FolderPath>,
}

impl Query {
    /// Reads a query: words, `"phrases"`, `prefix*`, `-excluded`, `tag:name`, `#name`, `path:folder`. Nothing is a syntax
    /// error.
    pub(crate) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (bare, is_excluded) = match rest.strip_prefix('-') {
                Some(bare) if !bare.starts_with([' ', '-']) && !bare.is_empty() => (bare, true),
                _ => (rest, false),
            };
            let (part, is_phrase, after) = match bare.strip_prefix('"') {
                Some(inner) => match inner.split_once('"') {
                    Some((part, after)) => (part, true, after),
                    None => (inner, true, ""),
                },
                None => {
                    let end = bare.find(char::is_whitespace).unwrap_or(bare.len());
                    let (part, after) = bare.split_at(end);
                    (part, false, after)
                }
            };
            query.push(part, is_phrase, is_excluded);
            rest = after.trim_start();
        }
        query
    }

    fn push(&mut self, part: &str, is_phrase: bool, is_excluded: bool) {
        if !is_phrase && !is_excluded {
            let tag =
                part.strip_prefix("tag:").map(|tag| tag.trim_start_matches('#')).or(part.strip_prefix('#'));
            if let Some(tag) = tag.filter(|tag| !tag.is_empty()) {
                self.tags.push(tag.to_lowercase());
                return;
            }
            if let Some(folder) = part.strip_prefix("path:").and_then(|path| FolderPath::parse(path).ok()) {
                self.folders.push(folder);
                return;
            }
        }
        let is_prefix = !is_phrase && part.ends_with('*');
        let words = words(part);
        if !words.is_empty() {
            self.terms.push(Term { words, is_prefix, is_excluded });
        }
    }

    pub(super) fn included(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(|term| !term.is_excluded)
    }

    /// The expression for FTS5 in which all terms must occur, or one of them. Nothing if no word is asked for.
    pub(super) fn expression(&self, is_any: bool) -> Option<String> {
        let mut included: Vec<&Term> = self.included().collect();
        if is_any && included.iter().any(|term| !term.is_common()) {
            included.retain(|term| !term.is_common());
        }
        if included.is_empty() {
            return None;
        }
        let join = |terms: &[&Term], with: &str| {
            terms.iter().map(|term| term.expression()).collect::<Vec<_>>().join(with)
        };
        let wanted = join(&included, if is_any { " OR " } else { " AND " });
        let excluded: Vec<&Term> = self.terms.iter().filter(|term| term.is_excluded).collect();
        if excluded.is_empty() {
            return Some(wanted);
        }
        Some(format!("({wanted}) NOT ({})", join(&excluded, " OR ")))
    }
}

impl Term {
    fn is_common(&self) -> bool {
        !self.is_prefix && matches!(&*self.words, [word] if COMMON.contains(&word.as_str()))
    }

    /// The words in quotes, so that nothing in them is an operator.
    fn expression(&self) -> String {
        let star = if self.is_prefix { " *" } else { "" };
        format!("\"{}\"{star}", self.words.join(" "))
    }
}

/// The words of a text as the tokenizer of the index sees them, apart from accents.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Option<String> {
        Query::parse(text).expression(false)
    }

    #[test]
    fn a_query_is_read_without_syntax_errors() {
        assert_eq!(all("one two").unwrap(), "\"one\" AND \"two\"");
        assert_eq!(
            all("\"exact phrase\" pre* -no").unwrap(),
            "(\"exact phrase\" AND \"pre\" *) NOT (\"no\")"
        );
        assert_eq!(
            all("a\"b OR NEAR( col: ^x").unwrap(),
            "\"a b\" AND \"or\" AND \"near\" AND \"col\" AND \"x\""
        );
        assert_eq!(all("\"unclosed phrase").unwrap(), "\"unclosed phrase\"");
        assert_eq!(all(" - * \"\" -"), None);
        let query = Query::parse("tag:#A/b #c path:x/y word");
        assert_eq!(
            (query.tags, query.folders),
            (vec!["a/b".into(), "c".into()], vec![FolderPath::parse("x/y").unwrap()])
        );
    }

    #[test]
    fn a_question_is_searched_by_its_rare_words() {
        let query = Query::parse("What is the retention of backups?");
        assert_eq!(query.expression(true).unwrap(), "\"retention\" OR \"backups\"");
        assert_eq!(Query::parse("who is it").expression(true).unwrap(), "\"who\" OR \"is\" OR \"it\"");
    }
}
