//! Notes: any text has a structure within its bounds, and edits keep what they do not mean.
#![no_main]

use agentiso_notes::front_matter::{FrontMatterEdit, block, edit_front_matter, parse};
use agentiso_notes::markdown::{SectionEdit, edit_section, links, outline, tags};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let found = block(&text);
    let body = found.as_ref().map_or(0, |found| found.span.end);
    let structure = outline(&text, body);
    let mut end = body;
    for range in &structure.hidden {
        assert!(range.start >= end && text.get(range.clone()).is_some());
        end = range.end;
    }
    let links = links(&text, body, &structure);
    assert!(links.iter().all(|link| text.get(link.place.clone()).is_some()));
    tags(&text, body, &structure, &links);
    for heading in structure.headings.iter().take(3) {
        if let Ok(edited) = edit_section(&text, &structure, &heading.text, SectionEdit::Append, "added\n") {
            assert!(edited.contains("added") && edited.len() >= text.len());
        }
    }
    let before = found.map(|found| parse(&text[found.yaml]));
    let value = serde_json::json!(["x", {"y": null}]);
    if let Ok(edited) = edit_front_matter(&text, &FrontMatterEdit::Set("key", &value)) {
        let found = block(&edited).expect("a set key is in front matter");
        let mut after = parse(&edited[found.yaml]).expect("what was written can be read");
        assert_eq!(after.remove("key"), Some(value));
        if let Some(Ok(mut before)) = before {
            before.remove("key");
            assert_eq!(before, after);
        }
    }
});
