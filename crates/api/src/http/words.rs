//! Parameters of an action in paths and queries.

use agentiso_core::{Code, Failure};
use serde_json::{Map, Value, json};

use crate::catalogue::Entry;

/// Adds parameters from a path or a query, each converted to the type its schema names.
pub(super) fn add(
    entry: &Entry,
    arguments: &mut Map<String, Value>,
    words: impl IntoIterator<Item = (String, String)>,
) -> Result<(), Failure> {
    let schema = entry.input_schema();
    for (name, text) in words {
        let value = typed(&schema["properties"][&name], &name, &text)?;
        if arguments.insert(name.clone(), value).is_some() {
            return Err(Failure::new(Code::InvalidArgument, format!("`{name}` is given twice")));
        }
    }
    Ok(())
}

fn typed(schema: &Value, name: &str, text: &str) -> Result<Value, Failure> {
    let is = |kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(many) => many.iter().any(|one| one == kind),
        _ => false,
    };
    if is("string") {
        return Ok(json!(text));
    }
    if is("object") {
        return object(name, text);
    }
    if is("array") {
        return Ok(match serde_json::from_str(text) {
            Ok(Value::Array(items)) => Value::Array(items),
            _ => json!(text.split(',').collect::<Vec<_>>()),
        });
    }
    if is("integer")
        && let Ok(number) = text.parse::<i64>()
    {
        return Ok(json!(number));
    }
    Ok(match text {
        "true" | "false" if is("boolean") => json!(text == "true"),
        _ => json!(text),
    })
}

/// `key=value` pairs with commas between them, or JSON.
fn object(name: &str, text: &str) -> Result<Value, Failure> {
    if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
        return Ok(Value::Object(fields));
    }
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        (!key.is_empty()).then(|| (key.to_owned(), json!(value)))
    };
    let fields: Option<Map<String, Value>> =
        text.split(',').filter(|part| !part.is_empty()).map(pair).collect();
    fields.map(Value::Object).ok_or_else(|| {
        Failure::new(Code::InvalidArgument, format!("`{name}` is wrong: key=value pairs are expected"))
            .with_remedy(format!("for example {name}=project=web,tier=test, or a JSON object"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn added(action: &str, words: &[(&str, &str)]) -> Result<Value, Failure> {
        let mut arguments = Map::new();
        let words = words.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        add(catalogue::find(action).unwrap(), &mut arguments, words)?;
        Ok(Value::Object(arguments))
    }

    #[test]
    fn words_become_what_their_parameter_is() {
        let words = [("workspace_id", "123"), ("job_id", "7"), ("wait", "exit")];
        assert_eq!(
            added("exec_poll", &words).unwrap(),
            json!({ "workspace_id": "123", "job_id": 7, "wait": "exit" })
        );
        let twice = added("exec_poll", &[("job_id", "7"), ("job_id", "8")]).unwrap_err();
        assert_eq!(twice.code(), Code::InvalidArgument);
    }

    #[test]
    fn labels_are_pairs_or_json() {
        let expected = json!({"labels": {"project": "web", "tier": "a=b"}});
        for text in ["project=web,tier=a=b", r#"{"project":"web","tier":"a=b"}"#] {
            assert_eq!(added("workspace_list", &[("labels", text)]).unwrap(), expected, "{text}");
        }
        assert_eq!(added("workspace_list", &[("labels", "")]).unwrap(), json!({"labels": {}}));
        let wrong = added("workspace_list", &[("labels", "project")]).unwrap_err();
        assert!(wrong.remedy().unwrap().contains("project=web"), "{wrong:?}");
    }
}
