//! Values that must not be shown: contents, credentials and the values of variables.
//!
//! A [`Secret`] prints as `***` and serialises as a summary (its size, or the names of its variables), so that whatever
//! is logged or kept of a request has no secrets in it, without a list of parameters to leave out. Only [`in_clear`]
//! writes the values themselves, for the connection between a client and the daemon.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use zeroize::Zeroize;

/// What is printed instead of a secret.
const MASK: &str = "***";

/// A value that is never shown. Its memory is overwritten when it is dropped.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Secret<T: Sensitive>(T);

impl<T: Sensitive> Secret<T> {
    /// Keeps a value secret.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value. It must not reach a log, an error or anything that is kept.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Sensitive + Default> Secret<T> {
    /// The value, from now on in the care of the caller.
    pub fn into_exposed(mut self) -> T {
        std::mem::take(&mut self.0)
    }
}

impl<T: Sensitive> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// A type whose values can be secret.
pub trait Sensitive {
    /// What may be kept of it.
    fn summary(&self) -> Value;

    /// Overwrites it.
    fn wipe(&mut self);

    /// The variables in it, if it is a set of variables.
    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl Sensitive for String {
    fn summary(&self) -> Value {
        json!({ "bytes": self.len() })
    }

    fn wipe(&mut self) {
        self.zeroize();
    }
}

impl<T: Sensitive> Sensitive for Option<T> {
    fn summary(&self) -> Value {
        self.as_ref().map(T::summary).unwrap_or_default()
    }

    fn wipe(&mut self) {
        self.iter_mut().for_each(T::wipe);
    }
}

impl<T: Sensitive> Sensitive for Vec<T> {
    fn summary(&self) -> Value {
        json!({ "items": self.len() })
    }

    fn wipe(&mut self) {
        self.iter_mut().for_each(T::wipe);
    }
}

/// Variables. Their names may be kept, their values not.
impl<V: Sensitive + AsText> Sensitive for BTreeMap<String, V> {
    fn summary(&self) -> Value {
        json!(self.keys().collect::<Vec<_>>())
    }

    fn wipe(&mut self) {
        self.values_mut().for_each(V::wipe);
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.iter().filter_map(|(name, value)| Some((name.clone(), value.as_text()?.to_owned()))).collect()
    }
}

/// The value of a variable, if it has one and it is text.
pub trait AsText {
    /// Its text.
    fn as_text(&self) -> Option<&str>;
}

impl AsText for String {
    fn as_text(&self) -> Option<&str> {
        Some(self)
    }
}

impl AsText for Option<String> {
    fn as_text(&self) -> Option<&str> {
        self.as_deref()
    }
}

thread_local! {
    /// Whether secrets are serialised in clear.
    static CLEAR: Cell<bool> = const { Cell::new(false) };
    /// Where the variables of what is being serialised are noted.
    static NOTED: RefCell<Option<Vec<(String, String)>>> = const { RefCell::new(None) };
}

/// Serialises with secrets in clear: for a connection to the other side, never for what is logged or kept. Holds for
/// the calling thread, until `write` returns.
pub fn in_clear<R>(write: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            CLEAR.set(self.0);
        }
    }
    let _before = Before(CLEAR.replace(true));
    write()
}

/// What may be kept of a request, with the variables in it, whose values may also occur in its other parameters.
pub fn summary_of(request: &impl Serialize) -> (Value, Vec<(String, String)>) {
    NOTED.set(Some(Vec::new()));
    let summary = serde_json::to_value(request).unwrap_or_default();
    (summary, NOTED.take().unwrap_or_default())
}

impl<T: Sensitive + Serialize> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if CLEAR.get() {
            return self.0.serialize(serializer);
        }
        NOTED.with_borrow_mut(|noted| {
            if let Some(noted) = noted {
                noted.extend(self.0.variables());
            }
        });
        self.0.summary().serialize(serializer)
    }
}

impl<'de, T: Sensitive + Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

/// The schema of the value, marked as write-only.
impl<T: Sensitive + JsonSchema> JsonSchema for Secret<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Secret{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("writeOnly".to_owned(), true.into());
        schema
    }
}

impl<T: Sensitive> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T: Sensitive> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T: Sensitive> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl<T: Sensitive + FromIterator<I>, I> FromIterator<I> for Secret<T> {
    fn from_iter<It: IntoIterator<Item = I>>(items: It) -> Self {
        Self(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Request {
        path: &'static str,
        content: Secret<String>,
        env: Secret<BTreeMap<String, String>>,
    }

    fn request() -> Request {
        let env = BTreeMap::from([("KEY".to_owned(), "hush".to_owned())]);
        Request { path: "/a", content: "hush hush".into(), env: env.into() }
    }

    #[test]
    fn a_secret_is_shown_by_its_size_or_its_names_and_nothing_else() {
        let (kept, variables) = summary_of(&request());
        assert_eq!(kept, json!({"path": "/a", "content": {"bytes": 9}, "env": ["KEY"]}));
        assert_eq!(variables, [("KEY".to_owned(), "hush".to_owned())]);
        assert_eq!(serde_json::to_value(request()).unwrap(), kept);
        assert_eq!(format!("{:?} {}", request().content, request().env), "*** ***");
    }

    #[test]
    fn secrets_are_written_in_clear_only_while_that_is_asked_for() {
        let clear = in_clear(|| serde_json::to_value(request()).unwrap());
        assert_eq!(clear, json!({"path": "/a", "content": "hush hush", "env": {"KEY": "hush"}}));
        assert!(!serde_json::to_string(&request()).unwrap().contains("hush"));
        let panicked = std::panic::catch_unwind(|| in_clear(|| panic!("half way")));
        assert!(panicked.is_err());
        assert!(!serde_json::to_string(&request()).unwrap().contains("hush"));
    }

    #[test]
    fn what_is_read_is_what_was_written_in_clear() {
        let secret: Secret<BTreeMap<String, Option<String>>> =
            serde_json::from_value(json!({"A": "b", "C": null})).unwrap();
        assert_eq!(in_clear(|| serde_json::to_value(&secret).unwrap()), json!({"A": "b", "C": null}));
        assert_eq!(secret.into_exposed().len(), 2);
    }
}
