//! Checks that the OpenAPI document is up to date. `UPDATE_DOCS=1` rewrites it.

use std::collections::HashSet;
use std::path::Path;
use std::{env, fs};

use agentiso_api::http::openapi;

#[test]
fn the_openapi_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "run the tests once with UPDATE_DOCS=1 to rewrite {}", path.display());
}

#[test]
fn every_operation_has_a_unique_name_and_describes_its_parameters_and_results() {
    let description = openapi();
    let mut names = HashSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: {name} occurs twice");
            assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object());
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let parameter = part.trim_end_matches('}');
                let told = operation["parameters"].as_array().unwrap().iter();
                assert!(
                    told.clone().any(|one| one["name"] == parameter && one["in"] == "path"),
                    "{method} {path} does not describe {parameter}"
                );
            }
        }
    }
    assert!(names.len() > 40, "{}", names.len());
}
