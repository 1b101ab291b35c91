//! Whether a value is what a schema allows, for the keywords that our schemas use.

use regex::Regex;
use serde_json::Value;

/// What is wrong with a value, if anything is. A keyword that is not known here is a fault of this test.
pub fn violation(schema: &Value, value: &Value) -> Option<String> {
    let rules = schema.as_object()?;
    rules.iter().find_map(|(keyword, rule)| {
        let is_met = is_met(schema, keyword, rule, value);
        (!is_met).then(|| format!("{keyword} {rule} is not met by {value}"))
    })
}

fn allows(schema: &Value, value: &Value) -> bool {
    violation(schema, value).is_none()
}

fn is_met(schema: &Value, keyword: &str, rule: &Value, value: &Value) -> bool {
    let rules = || rule.as_array().into_iter().flatten();
    let named = || rule.as_object().into_iter().flatten();
    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
    let length = || value.as_str().map(|text| text.chars().count() as u64);
    match keyword {
        "$schema" | "title" | "description" | "default" | "examples" | "format" | "writeOnly" => true,
        "type" => {
            rule.is_array() && rules().any(|kind| is_of(kind, value))
                || rule.is_string() && is_of(rule, value)
        }
        "enum" => rules().any(|one| one == value),
        "const" => rule == value,
        "minimum" => number(value).is_none_or(|given| given >= number(rule).unwrap()),
        "maximum" => number(value).is_none_or(|given| given <= number(rule).unwrap()),
        "minLength" => length().is_none_or(|length| length >= rule.as_u64().unwrap()),
        "maxLength" => length().is_none_or(|length| length <= rule.as_u64().unwrap()),
        "pattern" => {
            value.as_str().is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text))
        }
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
        "maxProperties" => {
            value.as_object().is_none_or(|fields| fields.len() as u64 <= rule.as_u64().unwrap())
        }
        "items" => value.as_array().into_iter().flatten().all(|item| allows(rule, item)),
        "propertyNames" => {
            value.as_object().into_iter().flatten().all(|(name, _)| allows(rule, &Value::from(name.clone())))
        }
        "required" => rules().all(has),
        "properties" => named().all(|(name, rule)| value.get(name).is_none_or(|field| allows(rule, field))),
        "additionalProperties" => {
            let others = value.as_object().into_iter().flatten();
            let mut others = others.filter(|(name, _)| schema["properties"].get(name.as_str()).is_none());
            others.all(|(_, field)| *rule != false && allows(rule, field))
        }
        "anyOf" => rules().any(|rule| allows(rule, value)),
        "oneOf" => rules().filter(|rule| allows(rule, value)).count() == 1,
        "not" => !allows(rule, value),
        "if" => !allows(rule, value) || allows(&schema["then"], value),
        "then" => true,
        "dependentRequired" => named().all(|(name, needed)| {
            value.get(name).is_none() || needed.as_array().into_iter().flatten().all(has)
        }),
        "dependentSchemas" => named().all(|(name, rule)| value.get(name).is_none() || allows(rule, value)),
        other => panic!("{other} is not known"),
    }
}

fn number(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is not a type"),
    }
}
