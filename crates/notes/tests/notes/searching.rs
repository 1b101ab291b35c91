//! Searches.

use agentiso_core::{Code, Explain};
use agentiso_notes::*;

use crate::support::*;

fn place() -> (Place, View) {
    let place = Place::new();
    place
        .by_hand("backup.md", "# Backups\n\nNightly copies are kept for thirty days.\n\nSee #ops/storage.\n");
    place.by_hand(
        "ops/retention.md",
        "---\ntags: [ops, policy]\ntitle: Retention\n---\nLogs: two weeks. Café.\n",
    );
    place.by_hand("misc.md", "The days are long. Backups once.\nfoo_bar(baz)\n");
    let view = all(&place.open());
    (place, view)
}

#[test]
fn all_words_must_occur_and_titles_rank_first() {
    let (_place, view) = place();
    assert_eq!(found(&view, "backups"), ["backup.md", "misc.md"]);
    assert_eq!(found(&view, "days backups"), ["backup.md", "misc.md"]);
    assert_eq!(found(&view, "kept \"thirty days\""), ["backup.md"]);
    assert_eq!(found(&view, "reten*"), ["ops/retention.md"]);
    assert_eq!(found(&view, "cafe"), ["ops/retention.md"]);
    assert_eq!(found(&view, "backups -kept"), ["misc.md"]);
    assert_eq!(found(&view, "foo_bar"), ["misc.md"]);
}

#[test]
fn a_question_is_answered_by_some_of_its_words() {
    let (_place, view) = place();
    let results = view.search(&query("How long is the retention of our nightly copies?")).unwrap();
    assert_eq!(results.how, SearchHow::AnyWord);
    let paths: Vec<_> = results.results.iter().map(|result| result.path.as_str()).collect();
    assert!(paths.contains(&"backup.md") && paths.contains(&"ops/retention.md"));
}

#[test]
fn results_have_lines_and_context() {
    let (_place, view) = place();
    let result = view.search(&query("nightly kept")).unwrap().results.remove(0);
    assert_eq!((result.line_number, result.line.as_str()), (3, "Nightly copies are kept for thirty days."));
    assert_eq!(result.context, "# Backups\n\nNightly copies are kept for thirty days.\n\nSee #ops/storage.");
    assert_eq!(result.title.as_deref(), Some("Backups"));
    assert!(result.score > 0.0);
    assert_eq!(result.etag, Some(read(&view, "backup.md").etag));
}

#[test]
fn tags_folders_and_patterns_narrow_a_search() {
    let (_place, view) = place();
    let mut tagged = found(&view, "tag:ops");
    tagged.sort();
    assert_eq!(tagged, ["backup.md", "ops/retention.md"]);
    assert_eq!(found(&view, "logs #policy"), ["ops/retention.md"]);
    assert_eq!(found(&view, "path:ops weeks"), ["ops/retention.md"]);
    assert_eq!(found(&view, "path:nowhere weeks"), Vec::<String>::new());
    let search =
        SearchNotes { path_prefix: Some(folder("ops")), tag: Some("#OPS".to_owned()), ..query("weeks") };
    assert_eq!(view.search(&search).unwrap().result_count, 1);
    let regex = SearchNotes { regex: true, ..query(r"\b(two|thirty)\b") };
    let lines: Vec<_> = view
        .search(&regex)
        .unwrap()
        .results
        .into_iter()
        .map(|result| (result.path.to_string(), result.line_number))
        .collect();
    assert_eq!(lines, [("backup.md".to_owned(), 3), ("ops/retention.md".to_owned(), 5)]);
}

#[test]
fn what_no_word_matches_is_found_within_words() {
    let (_place, view) = place();
    let results = view.search(&query("ightl")).unwrap();
    assert_eq!((results.how, results.result_count), (SearchHow::Substring, 1));
    assert_eq!(view.search(&query("(baz)")).unwrap().results[0].path.as_str(), "misc.md");
    assert_eq!(view.search(&query("zzzz")).unwrap().result_count, 0);
}

#[test]
fn results_are_bounded_and_say_so() {
    let (_place, view) = place();
    let search = SearchNotes { max_results: Some(1), ..query("backups") };
    let results = view.search(&search).unwrap();
    assert!(results.truncated && results.result_count == 1);
    let search = SearchNotes { max_results: Some(0), regex: true, ..query(".") };
    assert!(!view.search(&search).unwrap().truncated);
}

#[test]
fn searches_that_cannot_be_are_refused() {
    let (_place, view) = place();
    let regex = |text: &str| view.search(&SearchNotes { regex: true, ..query(text) }).unwrap_err().code();
    for pattern in ["(", "", "a{1000}{1000}{1000}", &"(".repeat(500), &"x".repeat(1025)] {
        assert_eq!(regex(pattern), Code::InvalidArgument, "{pattern}");
    }
    for text in ["", "   ", &"x".repeat(1025)] {
        assert_eq!(view.search(&query(text)).unwrap_err().code(), Code::InvalidArgument);
    }
    for text in ["\"", "AND OR NOT", "a NEAR/2 b", "col:x", "^", "*", "-", "((((", "'; DROP TABLE note; --"] {
        view.search(&query(text)).unwrap();
    }
}

#[test]
fn a_result_that_was_edited_by_hand_is_looked_at_again() {
    let (place, view) = place();
    place.by_hand("misc.md", "nothing of the kind any more");
    assert_eq!(found(&view, "backups"), ["backup.md"]);
    std::fs::remove_file(place.host("backup.md")).unwrap();
    assert_eq!(found(&view, "backups"), Vec::<String>::new());
}
