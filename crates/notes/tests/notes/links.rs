//! Moves and the links that follow them.

use agentiso_core::{Code, Explain};
use agentiso_notes::*;

use crate::support::*;

/// A move in a directory of notes; returns the texts of the linking note before and after.
fn moved(files: &[(&str, &str)], from: &str, to: &str) -> (Place, Moved) {
    let place = Place::new();
    for (path, content) in files {
        place.by_hand(path, content);
    }
    let moved = relocate(&all(&place.open()), from, to).unwrap();
    (place, moved)
}

#[test]
fn links_that_mean_the_note_follow_it_and_others_stay() {
    let text = "[[plan]] [[Plan|alias]] [[a/plan#Risks]] ![[plan#^block|x]] [t](a/plan.md#h \"title\") [u](<a/plan.md>)\n\
                [v](a/pl%61n.md) ![w](./a/plan.md) [[planet]] [[b/plan]] `[[plan]]` %%[[plan]]%%\n\
                ```\n[[plan]]\n```\n<!-- [[plan]] -->\n[x]: a/plan.md\n| [[plan\\|y]] |\n";
    let expected = "[[goal]] [[goal|alias]] [[c/goal#Risks]] ![[goal#^block|x]] [t](c/goal.md#h \"title\") [u](<c/goal.md>)\n\
                [v](c/goal.md) ![w](./c/goal.md) [[planet]] [[b/plan]] `[[plan]]` %%[[plan]]%%\n\
                ```\n[[plan]]\n```\n<!-- [[plan]] -->\n[x]: c/goal.md\n| [[goal\\|y]] |\n";
    let (place, moved) =
        moved(&[("index.md", text), ("a/plan.md", "p"), ("planet.md", "")], "a/plan.md", "c/goal.md");
    assert_eq!(place.text("index.md"), expected);
    assert_eq!(place.text("c/goal.md"), "p");
    assert!(!place.host("a/plan.md").exists());
    assert_eq!(moved.rewritten, [RewrittenNote { path: "index.md".to_owned(), links: 10 }]);
    assert_eq!(moved.notes_left, 0);
}

#[test]
fn names_that_still_find_the_note_stay_and_ambiguous_ones_get_a_path() {
    let (place, moved) =
        moved(&[("x.md", "[[plan]] [[a/plan]]"), ("a/plan.md", "")], "a/plan.md", "b/plan.md");
    assert_eq!(place.text("x.md"), "[[plan]] [[b/plan]]");
    assert_eq!(moved.rewritten.len(), 1);
    let files = [("x.md", "[[plan]]"), ("a/plan.md", ""), ("b/c/goal.md", "")];
    let (place, _) = super::links::moved(&files, "a/plan.md", "d/e/goal.md");
    assert_eq!(place.text("x.md"), "[[e/goal]]");
}

#[test]
fn links_of_the_moved_note_keep_their_meaning() {
    let own = "[a](other.md) [[../x/far]] ![i](img/p.png) [self](plan.md#h) [[plan]]";
    let files = [("n/plan.md", own), ("n/other.md", ""), ("x/far.md", ""), ("n/img/p.png", "")];
    let (place, moved) = moved(&files, "n/plan.md", "m/k/goal.md");
    let expected = "[a](../../n/other.md) [[../../x/far]] ![i](../../n/img/p.png) [self](goal.md#h) [[goal]]";
    assert_eq!(place.text("m/k/goal.md"), expected);
    assert_eq!(moved.etag, Etag::of(expected.as_bytes()));
}

#[test]
fn the_closest_note_of_a_name_is_meant() {
    let place = Place::new();
    for path in ["plan.md", "a/plan.md", "a/b/plan.md", "c/Plan.md"] {
        place.by_hand(path, "");
    }
    place.by_hand("a/b/x.md", "[[plan]] [[b/plan]] [[PLAN.MD]] [[c/plan]] [[/c/plan]] [[none/plan]]");
    place.by_hand("c/y.md", "[p](plan.md) [q](../plan.md) [r](a/plan.md) [[../../plan]]");
    let view = all(&place.open());
    let targets = |at: &str| {
        let links = view.links(&ReadLinks { path: path(at) }).unwrap().links;
        links.into_iter().map(|link| link.target.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(targets("a/b/x.md"), ["plan.md", "a/b/plan.md", "plan.md", "c/Plan.md", "c/Plan.md", ""]);
    assert_eq!(targets("c/y.md"), ["c/Plan.md", "plan.md", "a/plan.md", ""]);
    assert_eq!(backlinks(&view, "c/Plan.md"), ["a/b/x.md", "a/b/x.md", "c/y.md"]);
    let graph = view.graph(&ReadGraph {}).unwrap();
    assert_eq!((graph.nodes.len(), graph.unresolved), (6, 2));
}

#[test]
fn a_move_and_its_opposite_change_nothing() {
    let odd = "[[PLAN]] [x](%61/plan.md) [[a/plan]] [[plan.md|y]] [[/a/Plan]] ![[a/plan#h]]";
    let files = [
        ("x.md", odd),
        ("y/z.md", "[[plan]] [p](../a/plan.md)"),
        ("a/plan.md", "[[plan]] [b](b.md)"),
        ("a/b.md", ""),
    ];
    for to in ["c/goal.md", "plan2.md", "y/b.md", "a/c/d/plan.md", "b.md"] {
        let (place, _) = moved(&files, "a/plan.md", to);
        relocate(&all(&place.open()), to, "a/plan.md").unwrap();
        for (path, text) in files {
            assert_eq!(place.text(path), text, "{path} via {to}");
        }
    }
}

#[test]
fn a_move_is_undone_with_its_links() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "x.md", "[[plan]]");
    write(&view, "a/plan.md", "p");
    relocate(&view, "a/plan.md", "goal.md").unwrap();
    assert_eq!(place.text("x.md"), "[[goal]]");
    assert_eq!(undo(&view, "goal.md").unwrap().path.as_str(), "a/plan.md");
    assert_eq!((place.text("x.md"), place.text("a/plan.md")), ("[[plan]]".to_owned(), "p".to_owned()));
}

#[test]
fn a_move_never_overwrites_unless_told_to() {
    let place = Place::new();
    let view = all(&place.open());
    write(&view, "a.md", "a");
    write(&view, "b.md", "b");
    write(&view, "x.md", "[[a]] [[b]]");
    assert_eq!(relocate(&view, "a.md", "b.md").unwrap_err().code(), Code::FileExists);
    assert_eq!(relocate(&view, "none.md", "c.md").unwrap_err().code(), Code::NoteNotFound);
    assert!(!relocate(&view, "a.md", "a.md").unwrap().moved);
    let request = MoveNote { path: path("a.md"), new_path: path("b.md"), overwrite: true, if_match: None };
    let stale = MoveNote { if_match: Some(IfMatch::Is(Etag::of(b"old"))), ..request.clone() };
    assert_eq!(view.relocate(&stale).unwrap_err().code(), Code::NoteConflict);
    view.relocate(&request).unwrap();
    assert_eq!((place.text("b.md"), place.text("x.md")), ("a".to_owned(), "[[b]] [[b]]".to_owned()));
    // What was overwritten is in the history.
    let versions =
        view.history(&ReadHistory { path: path("b.md"), limit: Some(100), before: None }).unwrap().versions;
    assert!(versions.iter().any(|version| version.etag == Some(Etag::of(b"a"))), "{versions:?}");
}

#[test]
fn notes_that_link_to_each_other_and_to_themselves_are_moved() {
    let files = [("a.md", "[[b]] [[a]]"), ("b.md", "[[a]] ![[b]]"), ("c.md", "![[a]] ![[c]]")];
    let (place, _) = moved(&files, "a.md", "z.md");
    assert_eq!(place.text("z.md"), "[[b]] [[z]]");
    assert_eq!(
        (place.text("b.md"), place.text("c.md")),
        ("[[z]] ![[b]]".to_owned(), "![[z]] ![[c]]".to_owned())
    );
}

#[test]
fn a_path_that_a_wikilink_cannot_express_is_reported() {
    let (place, moved) = moved(&[("x.md", "[[a]] [a](a.md)"), ("a.md", "")], "a.md", "c#1.md");
    assert_eq!(place.text("x.md"), "[[a]] [a](c%231.md)");
    assert_eq!(moved.notes_left, 1);
}
