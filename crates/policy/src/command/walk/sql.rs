//! Clients of databases and their statements.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::code::literals;
use super::judged::Judged;
use super::scripts::deletes;
use super::state::{Input, Streams, Walk};

impl Walk<'_> {
    /// A client of a database: statements in flags, arguments or standard input.
    pub(super) fn database(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        if options.is_harmless() {
            judged.add(Categories::READ_ONLY, format!("{} prints its version", call.name));
            return Ok(());
        }
        judged.add(call.found.entry().effect.and(options.adds), format!("{} uses a database", call.name));
        self.values(&options, judged)?;
        if call.positional(&options).iter().take(2).any(|word| deletes(word)) {
            judged.add(Categories::DESTRUCTIVE, format!("{} is asked to delete", call.name));
        }
        let kinds = &call.found.entry().args;
        let mut has_statement = options
            .values
            .iter()
            .any(|(name, kind, _)| *kind == super::super::tools::Kind::Sql || *name == "-f");
        // `redis-cli GET key` is one statement.
        let mut statement = String::new();
        for (number, index) in options.positional.iter().enumerate() {
            let kind = kinds
                .get(number.min(kinds.len().saturating_sub(1)))
                .copied()
                .unwrap_or(super::super::tools::Kind::Text);
            if kind == super::super::tools::Kind::Sql {
                has_statement |= !call.args[*index].optional;
                statement.push(' ');
                statement.push_str(call.text(*index));
            } else {
                self.judge_kind(kind, call.text(*index), judged)?;
            }
        }
        self.sql(&statement, judged)?;
        if options.has("-f") {
            judged.add(Categories::MUTATING, "runs a file of statements, which is not read");
        }
        if has_statement || options.has("-l") {
            return Ok(());
        }
        match &call.streams.input {
            Input::Text(text) => {
                let is_redis = matches!(call.name, "redis-cli" | "valkey-cli" | "keydb-cli" | "iredis");
                let text = if is_redis { text.replace('\n', ";") } else { text.clone() };
                self.sql(&text, judged)?;
            }
            Input::Unknown { .. } => judged.add(Categories::MUTATING, "runs statements from its input"),
            Input::Terminal => {
                let effect = Categories::INTERACTIVE.and(Categories::MUTATING);
                judged.add(effect, format!("{} without statements wants a terminal", call.name));
            }
        }
        Ok(())
    }

    /// Statements of SQL, and commands of its clients and of Redis.
    pub(super) fn sql(&mut self, sql: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        for literal in literals(sql) {
            if literal.text.starts_with(['/', '~']) {
                self.judge_argument(&literal.text, false, judged);
            }
        }
        for original in statements(sql) {
            if let Some(line) = client_command(&original) {
                judged.add(Categories::MUTATING, "a statement runs a program");
                let line = line.to_owned();
                self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
                continue;
            }
            if original.trim_start().starts_with(['.', '\\']) {
                let words = original.split_whitespace().skip(1).map(|word| word.trim_matches(['\'', '"']));
                for word in words.filter(|word| word.starts_with(['/', '~', '.'])) {
                    self.judge_path(word, false, judged);
                }
            }
            let upper = without_literals(&original).to_ascii_uppercase();
            let statement = upper.as_str();
            let mut words =
                statement.split(|letter: char| !letter.is_alphanumeric() && !"_.\\!".contains(letter));
            let mut words = words.by_ref().filter(|word| !word.is_empty());
            let Some(first) = words.next() else { continue };
            let has = |word: &str| {
                statement
                    .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                    .any(|other| other == word)
            };
            let deletes = [
                "DROP",
                "DELETE",
                "TRUNCATE",
                "FLUSHALL",
                "FLUSHDB",
                "DEL",
                "UNLINK",
                "PURGE",
                "DROPDATABASE",
                "DELETEMANY",
                "DELETEONE",
                "REMOVE",
                "DESTROY",
            ];
            // Functions such as `replace()` have the names of statements.
            let only_queries =
                matches!(first, "SELECT" | "SHOW" | "DESCRIBE" | "DESC" | "VALUES" | ".SCHEMA" | ".TABLES");
            let is_mongo = statement.contains("DROPDATABASE") || statement.contains(".DROP(");
            if is_mongo || !only_queries && deletes.iter().any(|word| has(word)) {
                judged.add(Categories::DESTRUCTIVE, "a statement deletes");
                continue;
            }
            if has("PROGRAM") {
                judged.add(Categories::MUTATING, "a statement runs a program");
                for literal in literals(&original) {
                    self.subshell(|walk| {
                        walk.text(&literal.text, Streams { captured: true, ..Streams::default() })
                    })?;
                }
                continue;
            }
            let reads = matches!(
                first,
                "SELECT"
                    | "SHOW"
                    | "EXPLAIN"
                    | "DESCRIBE"
                    | "DESC"
                    | "WITH"
                    | "VALUES"
                    | "PRAGMA"
                    | "USE"
                    | "BEGIN"
                    | "COMMIT"
                    | "ROLLBACK"
                    | "TABLE"
                    | "SET"
                    | "FROM"
                    | "WHERE"
                    | "GROUP"
                    | "ORDER"
                    | "LIMIT"
                    | "JOIN"
                    | "LEFT"
                    | "AND"
                    | "GET"
                    | "KEYS"
                    | "INFO"
                    | "PING"
                    | "TTL"
                    | "TYPE"
                    | "EXISTS"
                    | "LRANGE"
                    | "HGETALL"
                    | "HGET"
                    | "SMEMBERS"
                    | "ZRANGE"
                    | "DBSIZE"
                    | "SCAN"
                    | "LLEN"
                    | "MGET"
                    | "CLIENT"
                    | "MONITOR"
                    | "MEMORY"
                    | "STRLEN"
            ) || first.starts_with(['.', '\\'])
                && !matches!(
                    first,
                    ".IMPORT"
                        | ".RESTORE"
                        | ".SAVE"
                        | ".BACKUP"
                        | ".CLONE"
                        | ".OUTPUT"
                        | ".ONCE"
                        | ".READ"
                        | "\\I"
                        | "\\O"
                        | "\\COPY"
                        | "\\W"
                );
            let queries = [
                "FIND",
                "FINDONE",
                "COUNT",
                "COUNTDOCUMENTS",
                "AGGREGATE",
                "STATS",
                "GETCOLLECTIONNAMES",
                "DISTINCT",
            ];
            let reads = reads
                || first.starts_with("DB.")
                    && queries.iter().any(|word| statement.contains(&format!(".{word}(")));
            let is_set = first == "SET" && !statement.contains('=') && !has("TO");
            let changes = ["INSERT", "UPDATE", "CREATE", "ALTER", "REPLACE", "GRANT", "ATTACH"];
            let functions = [
                "INTO",
                "SETVAL",
                "NEXTVAL",
                "WRITEFILE",
                "LOAD_EXTENSION",
                "EDIT",
                "LO_EXPORT",
                "LO_IMPORT",
                "DBLINK",
                "SYS_EXEC",
                "SYS_EVAL",
                "PG_TERMINATE_BACKEND",
                "PG_RELOAD_CONF",
            ];
            let writes = functions.iter().any(|word| has(word))
                || !only_queries && changes.iter().any(|word| has(word));
            if !reads || writes || is_set || first == "PRAGMA" && statement.contains('=') {
                judged.add(Categories::MUTATING, "a statement changes data");
            }
        }
        Ok(())
    }
}

/// The statements of a text: they end at `;`, and commands of the client at the end of their line.
fn statements(sql: &str) -> Vec<String> {
    let is_odd = has_odd_quotes(sql);
    let mut found = vec![String::new()];
    let mut is_quoted = false;
    for line in sql.lines() {
        let is_command = !is_quoted && line.trim_start().starts_with(['.', '\\']);
        if is_command {
            found.push(String::new());
        }
        for letter in line.chars() {
            is_quoted ^= letter == '\'' && !is_odd && !is_command;
            match (letter, found.last_mut()) {
                (';', _) if !is_quoted => found.push(String::new()),
                (_, Some(last)) => last.push(letter),
                _ => {}
            }
        }
        match found.last_mut() {
            Some(last) if !is_command => last.push('\n'),
            _ => found.push(String::new()),
        }
    }
    found.retain(|statement| !statement.trim().is_empty());
    found
}

/// Whether it is not clear which text is in single quotes.
fn has_odd_quotes(sql: &str) -> bool {
    sql.contains("\\'") || sql.matches('\'').count() % 2 == 1
}

/// The shell command in a command of a client: `\! COMMAND`, `.shell COMMAND`, `.once | COMMAND`.
fn client_command(statement: &str) -> Option<&str> {
    let statement = statement.trim();
    if let Some(line) = statement.strip_prefix("\\!") {
        return Some(line.trim());
    }
    let (word, rest) = statement.split_once([' ', '\t'])?;
    match word {
        ".shell" | ".system" | "system" | ".sh" => Some(rest),
        ".once" | ".output" | ".import" | "\\o" | "\\g" | "\\copy" => {
            rest.split_once('|').map(|(_, line)| line)
        }
        _ => None,
    }
}

/// A statement without the text in single quotes.
fn without_literals(statement: &str) -> String {
    if has_odd_quotes(statement) {
        return statement.to_owned();
    }
    let mut is_quoted = false;
    let mut bare = String::with_capacity(statement.len());
    for letter in statement.chars() {
        if letter == '\'' {
            is_quoted = !is_quoted;
            bare.push(' ');
        } else if !is_quoted {
            bare.push(letter);
        }
    }
    bare
}
