//! Suggestions for mistyped names.

/// Returns the candidate most like `typed`, if any is close enough to be worth suggesting.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (likeness(typed, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The similarity of two names from 0 to 1, by letters or by words in any order.
fn likeness(typed: &str, candidate: &str) -> f64 {
    let by_letters = strsim::jaro_winkler(typed, candidate);
    let by_words = strsim::jaro_winkler(&sorted_words(typed), &sorted_words(candidate));
    // Of two candidates with the same words, the one with the words in the same order is better.
    by_letters.max(by_words - 0.01)
}

fn sorted_words(name: &str) -> String {
    let mut split = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !split.is_empty() {
            split.push('_');
        }
        split.push(letter.to_ascii_lowercase());
    }
    let mut words: Vec<&str> =
        split.split(['_', '-', '.', '/', ' ']).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_finds_none() {
        assert_eq!(nearest("debain", ["alpine", "debian", "debian-dev"]), Some("debian"));
        assert_eq!(nearest("qqqq", ["alpine", "debian"]), None);
    }

    #[test]
    fn the_same_words_in_another_order_or_spelling_are_near() {
        let tools = ["file_read", "file_write", "workspace_create", "snapshot_restore"];
        assert_eq!(nearest("read_file", tools), Some("file_read"));
        assert_eq!(nearest("createWorkspace", tools), Some("workspace_create"));
        assert_eq!(nearest("restore-snapshot", tools), Some("snapshot_restore"));
    }
}
