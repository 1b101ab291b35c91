//! Arguments that differ from the schema, but whose meaning is clear.

use serde_json::{Map, Value};

/// Other names that clients and models use for parameters, and the parameters they may mean, in order of preference.
const OTHER_NAMES: [(&str, &[&str]); 24] = [
    ("cmd", &["command"]),
    ("script", &["command"]),
    ("cwd", &["workdir"]),
    ("working_dir", &["workdir"]),
    ("working_directory", &["workdir"]),
    ("directory", &["workdir", "path"]),
    ("dir", &["workdir", "path"]),
    ("image", &["base_image"]),
    ("file_path", &["path", "guest_path"]),
    ("filename", &["path", "guest_path"]),
    ("file", &["path", "guest_path"]),
    ("path", &["guest_path", "workdir"]),
    ("id", &["workspace_id", "job_id"]),
    ("workspace", &["workspace_id"]),
    ("workspace_name", &["workspace_id"]),
    ("job", &["job_id"]),
    ("timeout", &["timeout_secs"]),
    ("timeout_seconds", &["timeout_secs"]),
    ("contents", &["content"]),
    ("text", &["content"]),
    ("old_str", &["old_string"]),
    ("new_str", &["new_string"]),
    ("memory", &["memory_mb"]),
    ("cpus", &["vcpus"]),
];

/// Turns every number that is whole into an integer: `10.0` is one, in JSON as in its schemas.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // Above this, a float does not identify one integer.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            let float = number.as_f64().unwrap_or(f64::NAN);
            if float.fract() == 0.0 && float.abs() <= EXACT {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
                let whole = float as i64;
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Renames parameters that were given under another name. `known` are the parameters of the action. A name that is itself
/// a parameter, or whose meaning was also given, is left alone.
pub(crate) fn by_their_names(arguments: &mut Map<String, Value>, known: &[String]) {
    let is_known = |name: &str| known.iter().any(|known| known == name);
    for (other, meanings) in OTHER_NAMES {
        if is_known(other) || !arguments.contains_key(other) {
            continue;
        }
        let meant = meanings.iter().find(|name| is_known(name) && !arguments.contains_key(**name));
        if let Some(meant) = meant
            && let Some(value) = arguments.remove(other)
        {
            arguments.insert((*meant).to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_numbers_that_are_whole_become_integers() {
        let mut value = json!({"a": [10.0, -3.0, 1.5, 1e300], "b": {"c": 1e3}, "d": "10.0", "e": 7});
        whole_numbers(&mut value);
        assert_eq!(value, json!({"a": [10, -3, 1.5, 1e300], "b": {"c": 1000}, "d": "10.0", "e": 7}));
    }
}
