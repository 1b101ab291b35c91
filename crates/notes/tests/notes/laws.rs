//! Properties that hold for all notes.

use agentiso_core::Secret;
use agentiso_notes::front_matter::{FrontMatterEdit, block, edit_front_matter, parse};
use agentiso_notes::markdown::{SectionEdit, edit_section, outline};
use agentiso_notes::*;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

/// A key with its lines, as people write them.
fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-e]: [a-z]{1,5}( # [a-z ]{0,5})?\n",
        "[a-e]:\n",
        "[a-e]: '[a-z: #]{0,6}'\n",
        "\"[a-e]\" : \"[a-z ]{0,5}\"\n",
        "[a-e]: \\[[a-z]{1,3}, [0-9]{1,3}\\]( # [a-z]{1,3})?\n",
        "[a-e]:\n  - [a-z]{1,4}\n  - [a-z]{1,4}\n",
        "[a-e]:\n- [a-z]{1,4}\n# [a-z]{1,4}\n- [a-z]{1,4}\n",
        "[a-e]: \\|\n  [a-z# ]{1,8}\n\n  [a-z]{1,4}\n",
        "[a-e]: >-\n  [a-z]{1,8}\n  [a-z]{1,4}\n",
        "[a-e]:\n  x: [0-9]{1,3}\n  y: \\{z: [a-z]{1,3}\\}\n",
        "[a-e]: [a-z]{1,4}\n  [a-z]{1,4}\n",
        "# [a-z: -]{0,9}\n",
        "\n",
        "[a-e]: [äöü€😀]{1,3} # [é]{1,2}\n",
    ]
}

/// Texts that YAML would read as something else if they were not quoted.
const ODD: &[&str] = &[
    "yes",
    "null",
    "~",
    "1.5",
    "0x1f",
    "2026-01-02",
    "- a",
    "a: b",
    "#x",
    "",
    " a ",
    "'",
    "\"",
    "*a",
    "&a",
    "!t",
    "---",
    "a\nb",
    "\t",
    "a #b",
    "[x",
    "{",
    "-",
    "?",
    "|",
    "%x",
    "@x",
    "`",
    "\u{feff}",
    "\u{85}",
    "1e3",
    "007",
    "+1",
    ".5",
    "-.inf",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        proptest::sample::select(ODD).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z ]{1,4}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Each line that is not one of the edited key must still be there, in order.
fn is_subsequence(lines: &[&str], text: &str) -> bool {
    let mut rest = text.split_inclusive('\n');
    lines.iter().all(|line| rest.any(|other| other == *line))
}

const PIECES: &[&str] = &[
    "# A\n",
    "## B\n",
    "### A\n",
    "text\n",
    "\n",
    "```\n",
    "~~~\n",
    "> ```\n",
    "- item\n",
    "    code\n",
    "<!-- c\n",
    "-->\n",
    "%%\n",
    "`code\n",
    "T\n===\n",
    "U\n---\n",
    "[[a]] `[[b]]`\n",
    "ä\r\n",
    "# A #\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_of_one_key_keeps_all_other_bytes(
        entries in vec(entry(), 0..8),
        key in "[a-f]",
        value in value(),
        body in "[a-z#\\-\n]{0,20}",
        is_crlf in any::<bool>(),
    ) {
        let text = format!("---\n{}---\n{body}", entries.concat());
        let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
        let Some(found) = block(&text) else { return Ok(()) };
        let Ok(before) = parse(&text[found.yaml.clone()]) else { return Ok(()) };
        // What the generator calls an entry of another key, with its lines.
        let named = |entry: &String| entry.trim_start_matches('"').starts_with(&key);
        let others: String = entries.iter().filter(|entry| !named(entry) && !entry.trim().is_empty() && !entry.starts_with('#')).map(String::as_str).collect();
        let others = if is_crlf { others.replace('\n', "\r\n") } else { others };
        let others: Vec<&str> = others.split_inclusive('\n').collect();
        for edit in [FrontMatterEdit::Set(&key, &value), FrontMatterEdit::Delete(&key)] {
            let edited = edit_front_matter(&text, &edit).map_err(|error| TestCaseError::fail(format!("{error:?} {text:?}")))?;
            let mut expected = before.clone();
            match edit {
                FrontMatterEdit::Set(..) => expected.insert(key.clone(), value.clone()),
                FrontMatterEdit::Delete(_) => expected.remove(&key),
            };
            let now = block(&edited);
            let rest = now.as_ref().map_or(&*edited, |now| &edited[now.span.end..]);
            if now.is_some() || matches!(edit, FrontMatterEdit::Set(..)) {
                prop_assert_eq!(rest, &text[found.span.end..]);
            }
            let values = now.map(|now| parse(&edited[now.yaml]).unwrap()).unwrap_or_default();
            if !(matches!(edit, FrontMatterEdit::Delete(_)) && expected.is_empty()) {
                prop_assert_eq!(&values, &expected);
            }
            prop_assert!(is_subsequence(&others, &edited), "{:?} became {:?}", text, edited);
        }
    }

    #[test]
    fn any_value_is_read_back_from_what_is_written(value in value()) {
        let edited = edit_front_matter("body", &FrontMatterEdit::Set("k", &value)).unwrap();
        let found = block(&edited).unwrap();
        let values = parse(&edited[found.yaml]).unwrap();
        prop_assert_eq!(values.get("k"), Some(&value));
    }

    #[test]
    fn any_text_is_front_matter_or_not_without_harm(text in "(---\n)?[a-z:\\-\\[\\]{}&*!|>'\"%@`#, \n\t]{0,80}(\n---\n)?.{0,10}") {
        let value = json!("x");
        if let Ok(edited) = edit_front_matter(&text, &FrontMatterEdit::Set("key", &value)) {
            let found = block(&edited).unwrap();
            let values = parse(&edited[found.yaml]).unwrap();
            prop_assert_eq!(values.get("key"), Some(&value));
        }
    }

    #[test]
    fn an_edit_of_one_section_keeps_all_other_bytes(
        pieces in vec(proptest::sample::select(PIECES), 0..14),
        index in any::<prop::sample::Index>(),
        content in "[a-z]{0,5}\n?",
        edit in proptest::sample::select(vec![SectionEdit::Append, SectionEdit::Replace, SectionEdit::Before, SectionEdit::After]),
    ) {
        let text = pieces.concat();
        let found = outline(&text, 0);
        if found.headings.is_empty() {
            return Ok(());
        }
        let heading = index.get(&found.headings);
        let Ok(edited) = edit_section(&text, &found, &heading.text, edit, &content) else { return Ok(()) };
        let heading = found.headings.iter().find(|known| known.text == heading.text).unwrap();
        let next = found.headings.iter().find(|next| next.span.start > heading.span.start && next.level <= heading.level);
        let end = next.map_or(text.len(), |next| next.span.start);
        let (prefix, suffix) = match edit {
            SectionEdit::Before => (heading.span.start, heading.span.start),
            SectionEdit::After => (heading.span.end, heading.span.end),
            SectionEdit::Replace => (heading.span.end, end),
            SectionEdit::Append => (heading.span.end, end),
        };
        prop_assert!(edited.starts_with(&text[..prefix]) && edited.ends_with(&text[suffix..]));
        prop_assert!(edited.contains(content.trim_end()));
        if edit != SectionEdit::Replace {
            // Nothing is removed.
            let added = edited.len() - text.len();
            prop_assert!(added >= content.len() && added <= content.len() + 5);
        }
    }

    #[test]
    fn structures_are_in_order_and_within_the_text(text in "[#`~%<>!\\-\\[\\]()|\\\\a \n]{0,120}") {
        let found = outline(&text, 0);
        let mut end = 0;
        for range in &found.hidden {
            prop_assert!(range.start >= end && range.end > range.start && range.end <= text.len());
            prop_assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
            end = range.end;
        }
        for link in agentiso_notes::markdown::links(&text, 0, &found) {
            prop_assert!(text.get(link.place.clone()).is_some());
            prop_assert!(!found.hidden.iter().any(|hidden| hidden.start < link.place.end && link.place.start < hidden.end));
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    Write(usize, usize),
    Delete(usize),
    Move(usize, usize),
    Undo(usize),
    Tag(usize),
    ByHand(usize, usize),
    RemoveByHand(usize),
    RenameByHand(usize, usize),
}

const PATHS: &[&str] = &["a.md", "b.md", "x/a.md", "x/c.md", "y/z/b.md", "y/d.md", "x/data.txt"];
const TEXTS: &[&str] = &[
    "",
    "alpha [[a]] [[b|t]]\n",
    "---\ntags: [one, two]\ntitle: T\n---\n# H\nbeta ![[x/c#h]] [m](x/a.md) [n](../a.md)\n",
    "[[c]] [[D]] [[y/z/b]] #three `[[a]]`\n",
    "---\nbroken: [\n---\ngamma [[../b]] [r]: a.md\n",
    "[q](c.md) [[data.txt]] ![[./d]] delta\n",
];

fn action() -> impl Strategy<Value = Action> {
    let (path, text) = (0..PATHS.len(), 0..TEXTS.len());
    prop_oneof![
        (path.clone(), text.clone()).prop_map(|(path, text)| Action::Write(path, text)),
        path.clone().prop_map(Action::Delete),
        (path.clone(), path.clone()).prop_map(|(from, to)| Action::Move(from, to)),
        path.clone().prop_map(Action::Undo),
        path.clone().prop_map(Action::Tag),
        (path.clone(), text).prop_map(|(path, text)| Action::ByHand(path, text)),
        path.clone().prop_map(Action::RemoveByHand),
        (path.clone(), path).prop_map(|(from, to)| Action::RenameByHand(from, to)),
    ]
}

/// Refusals that are part of the game; anything else is a failure.
fn allowed<T>(result: Result<T, NotesError>) {
    use NotesError::{Exists, FrontMatter, NoHistory, NotFound};
    match result {
        Ok(_) | Err(Exists { .. } | FrontMatter { .. } | NoHistory { .. } | NotFound { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_index_after_any_changes_is_that_of_a_rebuild(actions in vec(action(), 1..25)) {
        let place = Place::new();
        let notes = place.open();
        let view = all(&notes);
        for action in actions {
            match action {
                Action::Write(at, text) => drop(write(&view, PATHS[at], TEXTS[text])),
                Action::Delete(at) => allowed(delete(&view, PATHS[at])),
                Action::Move(from, to) => allowed(relocate(&view, PATHS[from], PATHS[to])),
                Action::Undo(at) => allowed(undo(&view, PATHS[at])),
                Action::Tag(at) => {
                    let tag = Some("new".to_owned());
                    let edit = EditTags { path: path(PATHS[at]), tags_action: TagsAction::Add, tag, if_match: None };
                    allowed(view.tags(&edit));
                }
                Action::ByHand(at, text) => place.by_hand(PATHS[at], TEXTS[text]),
                Action::RemoveByHand(at) => drop(std::fs::remove_file(place.host(PATHS[at]))),
                Action::RenameByHand(from, to) => {
                    std::fs::create_dir_all(place.host(PATHS[to]).parent().unwrap()).unwrap();
                    drop(std::fs::rename(place.host(PATHS[from]), place.host(PATHS[to])));
                }
            }
        }
        notes.scan().unwrap();
        let kept = index_of(&place);
        notes.rebuild().unwrap();
        prop_assert_eq!(kept, index_of(&place));
    }

    #[test]
    fn a_move_and_its_opposite_are_the_identity(
        texts in vec(0..TEXTS.len(), PATHS.len()),
        from in 0..PATHS.len() - 1,
        to in proptest::sample::select(vec!["new.md", "x/new.md", "y/a.md", "q/r/c.md", "y/z/b2.md", "A.md"]),
    ) {
        let place = Place::new();
        for (path, text) in PATHS.iter().zip(&texts) {
            place.by_hand(path, TEXTS[*text]);
        }
        let view = all(&place.open());
        let targets = |at: &str| {
            let links = view.links(&ReadLinks { path: path(at) }).unwrap().links;
            links.into_iter().map(|link| link.target).collect::<Vec<_>>()
        };
        let moved_target = |target: Option<String>| target.map(|target| if target == PATHS[from] { to.to_owned() } else { target });
        let meant = targets(PATHS[from]);
        relocate(&view, PATHS[from], to).unwrap();
        // Links of the moved note mean what they meant.
        let expected: Vec<_> = meant.into_iter().map(moved_target).collect();
        for (now, expected) in targets(to).into_iter().zip(expected) {
            prop_assert!(expected.is_none() || now == expected, "{:?} {:?}", now, expected);
        }
        relocate(&view, to, PATHS[from]).unwrap();
        for (path, text) in PATHS.iter().zip(&texts) {
            prop_assert_eq!(place.text(path), TEXTS[*text], "{}", path);
        }
    }
}

#[test]
fn any_content_is_kept_as_it_is() {
    let place = Place::new();
    let view = all(&place.open());
    for content in ["", "\n", "\r\n\r", "\u{feff}x", "a\0b", "---", "no newline", "😀"] {
        let request = WriteNote {
            path: path("a.md"),
            content: Secret::new(content.to_owned()),
            mode: WriteMode::Overwrite,
            heading: None,
            if_match: None,
        };
        view.write(&request).unwrap();
        assert_eq!(read(&view, "a.md").content, content);
    }
}
