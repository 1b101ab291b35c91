//! Labels in words.

use std::collections::BTreeMap;

/// `a=b, c=d`, or `-` if there are none.
pub fn labels_in_words(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return "-".to_owned();
    }
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(", ")
}
