//! "Did you mean …?"

/// Returns the candidate most like `typed`, if any is close enough to be worth suggesting.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(typed, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_finds_none() {
        assert_eq!(nearest("debain", ["alpine", "debian", "debian-dev"]), Some("debian"));
        assert_eq!(nearest("qqqq", ["alpine", "debian"]), None);
    }
}
