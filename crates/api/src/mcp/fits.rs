//! Limits results to a size that suits a model, unless the caller sets a limit.

use serde_json::{Map, Value};

/// Default limit on output or content, in bytes.
const FITS: u64 = 30_000;

/// Sets the limit of a call that could return much and does not set one itself.
pub(super) fn fit(action: &str, arguments: &mut Map<String, Value>) {
    let (field, most, others) = match action {
        "exec" => ("max_output_bytes", FITS, &[][..]),
        // Applies to each of two outputs.
        "exec_poll" => ("max_output_bytes", FITS / 2, &[][..]),
        "file_read" => ("max_output_bytes", FITS, &["limit"][..]),
        "git_diff" => ("max_bytes", FITS, &[][..]),
        _ => return,
    };
    if !others.iter().any(|other| arguments.contains_key(*other)) {
        arguments.entry(field).or_insert_with(|| Value::from(most));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fitted(action: &str, arguments: Value) -> Value {
        let Value::Object(mut arguments) = arguments else { panic!("arguments are an object") };
        fit(action, &mut arguments);
        Value::Object(arguments)
    }

    #[test]
    fn a_limit_is_set_where_the_caller_set_none() {
        assert_eq!(fitted("exec", json!({})), json!({"max_output_bytes": 30_000}));
        assert_eq!(fitted("exec", json!({"max_output_bytes": 9})), json!({"max_output_bytes": 9}));
        assert_eq!(fitted("file_read", json!({})), json!({"max_output_bytes": 30_000}));
        assert_eq!(fitted("file_read", json!({"limit": 99_000})), json!({"limit": 99_000}));
        assert_eq!(fitted("exec_poll", json!({})), json!({"max_output_bytes": 15_000}));
        assert_eq!(fitted("file_write", json!({})), json!({}));
    }
}
