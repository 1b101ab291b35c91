//! The REST interface as it is described. `UPDATE_DOCS=1` rewrites the description.

use std::collections::HashSet;
use std::path::Path;
use std::{env, fs};

use agentiso_api::http::openapi;

#[test]
fn the_description_of_the_rest_interface_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "run the tests once with UPDATE_DOCS=1 to rewrite {}", path.display());
}

#[test]
fn every_operation_has_its_own_name_and_says_what_it_takes_and_gives() {
    let description = openapi();
    let mut names = HashSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: {name} is there twice");
            assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object());
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let parameter = part.trim_end_matches('}');
                let told = operation["parameters"].as_array().unwrap().iter();
                assert!(
                    told.clone().any(|one| one["name"] == parameter && one["in"] == "path"),
                    "{method} {path} does not tell of {parameter}"
                );
            }
        }
    }
    assert!(names.len() > 40, "{}", names.len());
}
