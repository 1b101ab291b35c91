//! The published schemas. `UPDATE_DOCS=1` rewrites them.

use std::collections::BTreeSet;
use std::fs;

use agentiso_cli::avfs::schemas::all;

use crate::schema::directory;

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let rewrites = std::env::var_os("UPDATE_DOCS").is_some();
    let mut names = BTreeSet::new();
    for (name, schema) in all() {
        let path = directory().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if rewrites {
            fs::create_dir_all(directory()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(published, text, "run the tests once with UPDATE_DOCS=1 to rewrite {}", path.display());
        assert!(names.insert(format!("{name}.json")), "two schemas are called {name}");
    }
    for entry in fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name} is not the schema of anything");
    }
}
