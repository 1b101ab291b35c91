//! Converts the arguments of a tool call to those of an action.

use agentiso_core::{Code, Failure, nearest};
use serde_json::{Map, Value};

use super::fits;
use super::table::{Bundle, Does, Form, Spec};
use crate::Mistake;
use crate::catalogue::{self, Entry};
use crate::lenient::{by_their_names, whole_numbers};

/// An action and its checked arguments.
pub(super) struct Request {
    pub(super) entry: &'static Entry,
    pub(super) arguments: Map<String, Value>,
}

/// Parses and checks the arguments of a tool call, and sets limits on the size of its result.
pub(super) fn read(spec: &Spec, given: Map<String, Value>) -> Result<Request, Failure> {
    let mut request = checked(spec, given)?;
    fits::fit(request.entry.about.name, &mut request.arguments);
    Ok(request)
}

fn checked(spec: &Spec, mut given: Map<String, Value>) -> Result<Request, Failure> {
    // Some clients send every parameter, with null for those they do not use.
    given.retain(|_, value| !value.is_null());
    given.values_mut().for_each(whole_numbers);
    match &spec.does {
        Does::One(form) => form.read(spec.name.to_owned(), given),
        Does::Several(bundle) => {
            let (word, form) = bundle.choose(&mut given)?;
            form.read(format!("{} {word}", spec.name), given)
        }
    }
}

impl Bundle {
    fn choose(&self, given: &mut Map<String, Value>) -> Result<(&'static str, &'static Form), Failure> {
        let words = || self.words.iter().map(|(word, _)| *word);
        let all = || words().collect::<Vec<_>>().join(", ");
        let word = match given.remove("action") {
            Some(Value::String(word)) => word,
            Some(_) => {
                return Err(Failure::new(Code::InvalidArgument, "`action` is wrong: a string is expected")
                    .with_remedy(format!("action is one of {}", all())));
            }
            None => match self.otherwise {
                Some((word, field)) if given.contains_key(field) => word.to_owned(),
                _ => {
                    return Err(Failure::new(Code::InvalidArgument, "`action` is missing")
                        .with_remedy(format!("action is one of {}", all())));
                }
            },
        };
        self.words.iter().find(|(known, _)| *known == word).map(|(word, form)| (*word, form)).ok_or_else(
            || {
                let meant = nearest(&word, words())
                    .map(|near| format!("did you mean `{near}`? "))
                    .unwrap_or_default();
                Failure::new(Code::InvalidArgument, "unknown `action`")
                    .with_remedy(format!("{meant}action is one of {}", all()))
            },
        )
    }
}

impl Form {
    fn read(&self, of: String, mut arguments: Map<String, Value>) -> Result<Request, Failure> {
        let entry = self.entry()?;
        by_their_names(&mut arguments, &self.known(entry));
        if let Some((here, there)) = self.renamed
            && let Some(value) = arguments.remove(here)
            && arguments.insert(there.to_owned(), value).is_some()
        {
            return Err(Failure::new(Code::InvalidArgument, format!("`{here}` and `{there}` are the same"))
                .with_remedy(format!("give only `{here}`")));
        }
        if let Some(field) = self.without.iter().find(|field| arguments.contains_key(**field)) {
            let known = self.known(entry);
            return Err(Mistake::Unknown { of, field: (*field).to_owned(), known }.into());
        }
        for (field, value) in self.defaults {
            arguments.entry(*field).or_insert_with(|| Value::from(*value));
        }
        if let Some(field) = self.needs.iter().find(|field| !arguments.contains_key(**field)) {
            let about = self.described.iter().find(|(described, _)| described == field);
            let about = about.map(|(_, said)| (*said).to_owned()).unwrap_or_default();
            return Err(Mistake::Missing { field: (*field).to_owned(), about }.into());
        }
        match mended(entry, arguments) {
            Ok(arguments) => Ok(Request { entry, arguments }),
            Err(mistake) => Err(self.in_its_words(of, entry, mistake).into()),
        }
    }

    /// The catalogue entry of the action.
    pub(super) fn entry(&self) -> Result<&'static Entry, Failure> {
        catalogue::find(self.action)
            .ok_or_else(|| Failure::new(Code::Internal, format!("there is no action {}", self.action)))
    }

    /// The tool's name for a parameter of the action.
    pub(super) fn name_here(&self, field: &str) -> String {
        match self.renamed {
            Some((here, there)) if there == field => here.to_owned(),
            _ => field.to_owned(),
        }
    }

    fn known(&self, entry: &Entry) -> Vec<String> {
        let schema = entry.input_schema();
        let fields = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
        fields
            .filter(|field| !self.without.contains(&field.as_str()))
            .map(|field| self.name_here(field))
            .collect()
    }

    /// Rewrites a mistake with the parameter names of the tool.
    fn in_its_words(&self, of: String, entry: &Entry, mistake: Mistake) -> Mistake {
        match mistake {
            Mistake::Unknown { field, .. } => Mistake::Unknown { of, field, known: self.known(entry) },
            Mistake::Missing { field, about } => Mistake::Missing { field: self.name_here(&field), about },
            Mistake::Wrong { field, place, why, about } => {
                let rest = place.strip_prefix(&field).unwrap_or_default();
                let field = self.name_here(&field);
                Mistake::Wrong { place: format!("{field}{rest}"), field, why, about }
            }
        }
    }
}

/// Checks arguments. Small models write `"10"` for 10, `"true"` for true, and lists and objects in quotes: if a string
/// is invalid but its content parsed as JSON is valid, the content is used.
fn mended(entry: &Entry, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, Mistake> {
    let mut first = None;
    loop {
        let Err(mistake) = entry.check(&arguments) else { return Ok(arguments) };
        let said = match &mistake {
            Mistake::Wrong { field, .. } => said_by(&arguments, field).map(|said| (field.clone(), said)),
            _ => None,
        };
        let Some((field, said)) = said else { return Err(first.unwrap_or(mistake)) };
        // Each round replaces one string, so this terminates.
        arguments.insert(field, said);
        first.get_or_insert(mistake);
    }
}

fn said_by(arguments: &Map<String, Value>, field: &str) -> Option<Value> {
    let said = serde_json::from_str(arguments.get(field)?.as_str()?).ok()?;
    match said {
        Value::Null | Value::String(_) => None,
        said => Some(said),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::tools;

    fn read_as(tool: &str, given: Value) -> Result<(&'static str, Value), Failure> {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        let request = checked(tools::find(tool).unwrap().spec, given)?;
        Ok((request.entry.about.name, Value::Object(request.arguments)))
    }

    fn refused(tool: &str, given: Value) -> String {
        let failure = read_as(tool, given).unwrap_err();
        assert_eq!(failure.code(), Code::InvalidArgument);
        format!("{}; {}", failure.message(), failure.remedy().unwrap_or("-"))
    }

    #[test]
    fn the_action_word_selects_the_action_and_its_parameter_names() {
        assert_eq!(
            read_as("snapshot", json!({"action": "restore", "workspace_id": "a", "name": "b"})).unwrap(),
            ("snapshot_restore", json!({"workspace_id": "a", "snapshot_name": "b"}))
        );
        assert_eq!(
            read_as("snapshot", json!({"action": "diff", "workspace_id": "a", "snapshot_name": "b"}))
                .unwrap(),
            ("snapshot_diff", json!({"workspace_id": "a", "snapshot_name": "b"}))
        );
        assert_eq!(
            read_as("exec_background", json!({"action": "wait", "workspace_id": "a", "job_id": 3})).unwrap(),
            ("exec_poll", json!({"workspace_id": "a", "job_id": 3, "wait": "exit"}))
        );
    }

    #[test]
    fn without_an_action_word_the_parameters_decide() {
        assert_eq!(
            read_as("exec_background", json!({"workspace_id": "a", "command": "b"})).unwrap().0,
            "exec_start"
        );
        assert_eq!(
            refused("exec_background", json!({"workspace_id": "a", "job_id": 1})),
            "`action` is missing; action is one of start, poll, wait, write, kill, list"
        );
        assert_eq!(
            refused("snapshot", json!({"workspace_id": "a", "name": "b"})),
            "`action` is missing; action is one of create, restore, list, diff, delete"
        );
    }

    #[test]
    fn an_unknown_action_word_is_answered_with_the_known_ones() {
        assert_eq!(
            refused("snapshot", json!({"action": "restor", "workspace_id": "a"})),
            "unknown `action`; did you mean `restore`? action is one of create, restore, list, diff, delete"
        );
        assert_eq!(
            refused("snapshot", json!({"action": 7, "workspace_id": "a"})),
            "`action` is wrong: a string is expected; action is one of create, restore, list, diff, delete"
        );
    }

    #[test]
    fn mistakes_use_the_parameter_names_of_the_tool() {
        assert_eq!(
            refused("snapshot", json!({"action": "delete", "workspace_id": "a"})),
            "`name` is missing; name: The snapshot."
        );
        assert_eq!(
            refused("snapshot", json!({"action": "delete", "workspace_id": "a", "name": [1]})),
            "`name` is wrong: expected text, for example \"text\"; an array was given; name: The snapshot."
        );
        assert_eq!(
            refused("snapshot", json!({"action": "list", "workspace_id": "a", "name": "b"})),
            "`name` is not a parameter of snapshot list; it takes kind, workspace_id"
        );
        assert_eq!(
            refused(
                "snapshot",
                json!({"action": "delete", "workspace_id": "a", "name": "b", "snapshot_name": "c"})
            ),
            "`name` and `snapshot_name` are the same; give only `name`"
        );
    }

    #[test]
    fn fixed_parameters_cannot_be_given_and_required_ones_must_be() {
        let paths = json!({"workspace_id": "a", "host_path": "/b", "guest_path": "/c"});
        let (action, arguments) = read_as("file_upload", paths).unwrap();
        assert_eq!((action, &arguments["direction"]), ("file_transfer", &json!("upload")));
        let paths =
            json!({"workspace_id": "a", "direction": "download", "host_path": "/b", "guest_path": "/c"});
        assert_eq!(
            refused("file_upload", paths),
            "`direction` is not a parameter of file_upload; it takes guest_path, host_path, workspace_id"
        );
        assert_eq!(
            refused("workspace_batch_fork", json!({"workspace_id": "a"})),
            "`count` is missing; count: How many forks, 1 to 100."
        );
        assert_eq!(
            read_as("workspace_batch_fork", json!({"workspace_id": "a", "count": 3, "name_prefix": "w"}))
                .unwrap()
                .1,
            json!({"workspace_id": "a", "count": 3, "name_prefix": "w", "snapshot_name": "golden"})
        );
    }

    #[test]
    fn strings_are_parsed_as_numbers_booleans_and_lists_where_needed() {
        let given =
            json!({"workspace_id": "7", "command": "true", "timeout_secs": "10", "env": "{\"A\":\"1\"}"});
        assert_eq!(
            read_as("exec", given).unwrap().1,
            json!({"workspace_id": "7", "command": "true", "timeout_secs": 10, "env": {"A": "1"}})
        );
        assert_eq!(
            refused("exec", json!({"workspace_id": "a", "command": "b", "timeout_secs": "soon"})),
            "`timeout_secs` is wrong: expected a whole number from 1 to 86400, for example 120; text was given; \
             timeout_secs: Kill it and its children after this many seconds, up to 86400. Default: 120."
        );
        assert!(read_as("workspace_stop", json!({"workspace_id": "a", "force": "\"true\""})).is_err());
    }

    #[test]
    fn a_whole_number_is_accepted_in_any_notation() {
        let given =
            json!({"workspace_id": "a", "command": "b", "timeout_secs": 10.0, "max_output_bytes": 1e3});
        assert_eq!(
            read_as("exec", given).unwrap().1,
            json!({"workspace_id": "a", "command": "b", "timeout_secs": 10, "max_output_bytes": 1000})
        );
        assert!(
            refused("exec", json!({"workspace_id": "a", "command": "b", "timeout_secs": 1.5}))
                .contains("expected a whole number")
        );
    }

    #[test]
    fn common_aliases_of_parameters_are_accepted() {
        for (tool, given, expected) in [
            (
                "exec",
                json!({"workspace": "a", "cmd": "b", "cwd": "/c", "timeout": 5}),
                json!({"workspace_id": "a", "command": "b", "workdir": "/c", "timeout_secs": 5}),
            ),
            ("workspace_create", json!({"image": "debian"}), json!({"base_image": "debian"})),
            ("file_read", json!({"id": "a", "file_path": "/b"}), json!({"workspace_id": "a", "path": "/b"})),
            (
                "git_diff",
                json!({"workspace_id": "a", "path": "/r", "file_path": "b"}),
                json!({"workspace_id": "a", "path": "/r", "file_path": "b"}),
            ),
            (
                "file_upload",
                json!({"workspace": "a", "path": "/b", "host_path": "c"}),
                json!({"workspace_id": "a", "guest_path": "/b", "host_path": "c", "direction": "upload"}),
            ),
            (
                "exec_background",
                json!({"action": "poll", "workspace_id": "a", "id": 3}),
                json!({"workspace_id": "a", "job_id": 3}),
            ),
        ] {
            assert_eq!(read_as(tool, given).unwrap().1, expected, "{tool}");
        }
        let both = json!({"workspace_id": "a", "command": "b", "cmd": "c"});
        assert!(refused("exec", both).starts_with("`cmd` is not a parameter of exec"));
    }

    #[test]
    fn null_means_absent() {
        let given = json!({"workspace_id": "a", "command": "b", "env": null, "action": null, "job_id": null});
        assert_eq!(
            read_as("exec_background", given).unwrap(),
            ("exec_start", json!({"workspace_id": "a", "command": "b"}))
        );
    }
}
