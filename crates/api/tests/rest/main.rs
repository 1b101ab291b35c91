//! Checks that the OpenAPI document is up to date. `UPDATE_DOCS=1` rewrites it.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::HashSet;
use std::path::Path;
use std::{env, fs};

use agentiso_api::catalogue;
use agentiso_api::http::openapi;
use serde_json::Value;

#[test]
fn the_openapi_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = serde_json::to_string_pretty(openapi()).unwrap() + "\n";
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "run the tests once with UPDATE_DOCS=1 to rewrite {}", path.display());
}

/// Every operation of the document: method, path and description.
fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    openapi()["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

#[test]
fn every_operation_has_its_own_name_and_describes_its_parameters_and_answers() {
    let tags: HashSet<&str> =
        openapi()["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let mut names = HashSet::new();
    for (method, path, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "{method} {path}: {name} is there twice");
        assert!(tags.contains(operation["tags"][0].as_str().unwrap()), "{method} {path}");
        let answers = operation["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| ["200", "101", "default"].contains(&status.as_str())), "{name}");
        for parameter in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            let described = operation["parameters"].as_array().unwrap().iter();
            assert!(
                described.clone().any(|one| one["name"] == parameter && one["in"] == "path"),
                "{method} {path} does not describe {parameter}"
            );
        }
    }
    assert!(names.len() > 70, "{}", names.len());
}

#[test]
fn every_reference_leads_to_a_component_and_every_component_has_one_name() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| match value {
                Value::String(target) if key == "$ref" => found.push(target),
                value => references(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(openapi(), &mut found);
    assert!(found.len() > 500, "{}", found.len());
    for target in found {
        let target = target.strip_prefix('#').unwrap();
        assert!(openapi().pointer(target).is_some(), "{target} is not in the document");
    }
    for name in openapi()["components"]["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|end: char| end.is_ascii_digit()), "two types are called {name}");
    }
}

/// The routes in the source of the router that are not actions.
fn routes_in_source() -> HashSet<(String, String)> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    let mut routes = HashSet::new();
    for file in fs::read_dir(sources).unwrap() {
        let path = file.unwrap().path();
        let text = if path.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
        for call in text.split(".route(\"").skip(1) {
            let (path, handler) = call.split_once("\", ").unwrap();
            let method = handler.split('(').next().unwrap();
            let methods = if method == "any" { vec!["get", "post", "delete"] } else { vec![method] };
            routes.extend(methods.into_iter().map(|method| (method.to_owned(), path.to_owned())));
        }
    }
    routes
}

#[test]
fn every_route_is_described_and_every_described_route_is_served() {
    let actions = catalogue::ALL.iter().flat_map(|entry| entry.about.routes);
    let mut served = routes_in_source();
    assert!(served.contains(&("post".to_owned(), "/v1/shutdown".to_owned())), "{served:?}");
    served.extend(actions.map(|route| (route.method.as_str().to_lowercase(), route.path.to_owned())));
    let described: HashSet<_> =
        operations().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(served.difference(&described).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    assert_eq!(described.difference(&served).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}
