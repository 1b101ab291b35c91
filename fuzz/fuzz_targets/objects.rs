//! Any bytes are an object of the store or are refused. A directory has only names that stay in it, and what was decoded
//! is encoded to the same bytes.

#![no_main]

use agentiso_store::{
    Attributes, DirectoryObject, Footer, IndexEntry, Page, Recipe, RecordHeader, StatCache, is_valid_name,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match DirectoryObject::decode(bytes) {
        Ok(DirectoryObject::Whole(directory)) => {
            assert!(directory.entries.iter().all(|entry| is_valid_name(&entry.name)));
        }
        Ok(DirectoryObject::Paged { pages, .. }) => assert!(pages.iter().all(|page| is_valid_name(&page.last))),
        Err(_) => {}
    }
    if let Ok(Page(entries)) = Page::decode(bytes) {
        assert!(entries.iter().all(|entry| is_valid_name(&entry.name)));
    }
    if let Ok(recipe) = Recipe::decode(bytes) {
        assert_eq!(recipe.encode(), bytes);
    }
    if let Ok(attributes) = Attributes::decode(bytes) {
        assert_eq!(attributes.encode().as_deref().ok(), Some(bytes));
    }
    let _ = StatCache::decode(bytes);
    let _ = IndexEntry::decode(bytes);
    let _ = Footer::decode(bytes, bytes.len() as u64);
    if let Some(header) = bytes.first_chunk().and_then(RecordHeader::decode) {
        assert_eq!(header.encode(), bytes[..48]);
    }
});
