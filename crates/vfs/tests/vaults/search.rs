//! Full-text search.

use agentiso_core::Code;
use agentiso_vfs::{SearchQuery, StateRef, Vaults};

use crate::support::*;

fn hits(vaults: &Vaults, vault: &str, query: &str) -> Vec<(String, String)> {
    let view = vaults.view(vault, &StateRef::Now).unwrap();
    let found = vaults.search(&view, &SearchQuery::new(query)).unwrap();
    found.hits.into_iter().map(|hit| (hit.path.to_string(), hit.snippet)).collect()
}

fn paths(vaults: &Vaults, vault: &str, query: &str) -> Vec<String> {
    hits(vaults, vault, query).into_iter().map(|(path, _)| path).collect()
}

fn filled() -> Place {
    let place = Place::with_vault();
    place.write("v", "notes/a.md", "The quick brown fox jumps over the lazy dog.");
    place.write("v", "notes/b.md", "Foxes are quick. A fox, another fox.");
    place.write("v", "src/c.rs", "fn main() {}");
    place.write("v", "binary", "fox\0fox");
    place
}

#[test]
fn words_are_found_with_excerpts_the_best_first() {
    let place = filled();
    let found = hits(&place.vaults, "v", "fox");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].0, "/notes/b.md");
    assert!(found[1].1.contains("brown >>>>fox<<<< jumps"), "{found:?}");
    assert_eq!(paths(&place.vaults, "v", "jumping"), ["/notes/a.md"], "words are reduced to their stems");
    assert_eq!(paths(&place.vaults, "v", "\"quick brown\" OR main").len(), 2);
    assert_eq!(paths(&place.vaults, "v", "unknown"), Vec::<String>::new());
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    for bad in ["", "\"open", "AND"] {
        assert_eq!(
            code(place.vaults.search(&view, &SearchQuery::new(bad))),
            Code::InvalidArgument,
            "{bad:?}"
        );
    }
}

#[test]
fn a_search_sees_the_state_that_it_is_given() {
    let place = filled();
    assert_eq!(paths(&place.vaults, "v", "main"), ["/src/c.rs"]);
    place.fork("v", "x");
    place.write("x", "src/c.rs", "fn other() {}");
    assert_eq!(paths(&place.vaults, "x", "main"), Vec::<String>::new());
    assert_eq!(paths(&place.vaults, "x", "other"), ["/src/c.rs"]);
    assert_eq!(paths(&place.vaults, "v", "main"), ["/src/c.rs"]);
    place.remove("v", "src");
    assert_eq!(paths(&place.vaults, "v", "main"), Vec::<String>::new());
    let early = place.vaults.view("v", &StateRef::Revision(4)).unwrap();
    assert_eq!(place.vaults.search(&early, &SearchQuery::new("main")).unwrap().total, 1);
}

#[test]
fn a_text_is_indexed_once_for_all_forks() {
    let place = filled();
    hits(&place.vaults, "v", "fox");
    let rows = || {
        let connection = rusqlite::Connection::open(place.path("home/search.db")).unwrap();
        connection.query_row("SELECT count(*) FROM texts", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(rows(), 4);
    place.fork("v", "x");
    place.write("x", "copy", "fn main() {}");
    assert_eq!(paths(&place.vaults, "x", "main"), ["/copy", "/src/c.rs"]);
    assert_eq!(rows(), 4);
}

#[test]
fn a_scope_and_a_limit_are_kept() {
    let place = filled();
    place.write("v", "top", "fox");
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    let query = SearchQuery { path: path("notes"), limit: 1, ..SearchQuery::new("fox") };
    let found = place.vaults.search(&view, &query).unwrap();
    assert_eq!((found.hits.len(), found.total), (1, 2));
}

#[test]
fn a_damaged_index_is_made_again() {
    let place = filled();
    assert_eq!(hits(&place.vaults, "v", "fox").len(), 2);
    drop(place.vaults);
    for name in ["search.db-wal", "search.db-shm"] {
        let _ = std::fs::remove_file(place.dir.path().join("home").join(name));
    }
    std::fs::write(place.dir.path().join("home/search.db"), vec![9; 8192]).unwrap();
    let vaults = open(&place.dir.path().join("home"));
    assert_eq!(hits(&vaults, "v", "fox").len(), 2);
    vaults.rebuild_search().unwrap();
    assert_eq!(hits(&vaults, "v", "fox").len(), 2);
}
