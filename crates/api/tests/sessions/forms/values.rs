//! Values that a schema allows, its bounds among them.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

use super::schema::violation;

/// Values that a schema allows.
pub fn of(schema: &Value) -> BoxedStrategy<Value> {
    let rules = schema.clone();
    any_of_kind(schema)
        .prop_filter("the schema allows it", move |value| violation(&rules, value).is_none())
        .boxed()
}

fn any_of_kind(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return select(values.clone()).boxed();
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let one = |kind: &Value| {
                let mut schema = schema.clone();
                schema["type"] = kind.clone();
                any_of_kind(&schema)
            };
            proptest::strategy::Union::new(kinds.iter().map(one)).boxed()
        }
        Value::String(kind) => match kind.as_str() {
            "null" => Just(Value::Null).boxed(),
            "boolean" => any::<bool>().prop_map(Value::from).boxed(),
            "integer" => integer(schema),
            "string" => text(schema),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
                vec(of(&schema["items"]), least..least + 3).prop_map(Value::from).boxed()
            }
            "object" if schema["additionalProperties"].is_object() => map(schema),
            "object" => fields(schema),
            other => panic!("there are no values of the type {other}"),
        },
        other => panic!("{other} is not a type: {schema}"),
    }
}

fn integer(schema: &Value) -> BoxedStrategy<Value> {
    let (least, most) = match schema["format"].as_str() {
        Some("uint8") => (0, i128::from(u8::MAX)),
        Some("uint16") => (0, i128::from(u16::MAX)),
        Some("uint32") => (0, i128::from(u32::MAX)),
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Some("int64") => (i128::from(i64::MIN), i128::from(i64::MAX)),
        _ => (0, i128::from(u64::MAX)),
    };
    let bound = |name: &str| schema[name].as_i64().map(i128::from);
    let (least, most) = (bound("minimum").unwrap_or(least), bound("maximum").unwrap_or(most));
    let number = prop_oneof![Just(least), Just(most), least..=most];
    number
        .prop_map(|number| u64::try_from(number).map_or(json!(number as i64), |number| json!(number)))
        .boxed()
}

fn text(schema: &Value) -> BoxedStrategy<Value> {
    let least = schema["minLength"].as_u64().unwrap_or(0);
    let most = schema["maxLength"].as_u64();
    let free = most.map_or(least + 40, |most| most.min(least + 40));
    let pattern = match schema["pattern"].as_str() {
        Some(pattern) => {
            let open_end = if pattern.ends_with('$') { "" } else { ".{0,8}" };
            format!("({}){open_end}", pattern.trim_start_matches('^').trim_end_matches('$'))
        }
        None => format!("[^\\x00]{{{least},{free}}}"),
    };
    let ordinary = string_regex(&pattern).unwrap().prop_map(Value::from);
    // As long as it may be: the last character again and again.
    let longest = string_regex(&pattern).unwrap().prop_map(move |text| match (most, text.chars().last()) {
        (Some(most), Some(last)) if most < 5000 => {
            let missing = (most as usize).saturating_sub(text.chars().count());
            Value::from(text + &last.to_string().repeat(missing))
        }
        _ => Value::from(text),
    });
    prop_oneof![3 => ordinary, 1 => longest].boxed()
}

fn map(schema: &Value) -> BoxedStrategy<Value> {
    let mut names = schema["propertyNames"].as_object().cloned().unwrap_or_default();
    names.insert("type".to_owned(), json!("string"));
    let names = of(&Value::Object(names)).prop_map(|name| name.as_str().unwrap_or_default().to_owned());
    btree_map(names, of(&schema["additionalProperties"]), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        .boxed()
}

fn fields(schema: &Value) -> BoxedStrategy<Value> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut all = Just(Map::new()).boxed();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = match required.contains(&name.as_str()) {
            true => of(property).prop_map(Some).boxed(),
            false => proptest::option::of(of(property)).boxed(),
        };
        let name = name.clone();
        all = (all, value)
            .prop_map(move |(mut fields, value)| {
                fields.extend(value.map(|value| (name.clone(), value)));
                fields
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}
