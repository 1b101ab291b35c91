//! Languages that can be read: SQL, `sed` and `awk`.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::code::literals;
use super::judged::Judged;
use super::scripts::deletes;
use super::state::{Input, Streams, UNKNOWN, Walk};

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

    /// A program for `sed`: `w`, `e`, and the same as flags of `s`.
    pub(super) fn sed(&mut self, script: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        if script == UNKNOWN.to_string() {
            judged.add(Categories::MUTATING, "the script is not known before the command runs");
            return Ok(());
        }
        let letters: Vec<char> = script.chars().collect();
        let mut at = 0;
        while at < letters.len() {
            let letter = letters[at];
            at += 1;
            match letter {
                '/' => at = section(&letters, at, '/'),
                '\\' => at = letters.get(at).map_or(at, |mark| section(&letters, at + 1, *mark)),
                's' | 'y' => {
                    let Some(mark) = letters.get(at) else { continue };
                    let start = section(&letters, at + 1, *mark);
                    at = section(&letters, start, *mark);
                    if self.drafts.len() < 16 {
                        let text: String =
                            letters[start.min(letters.len())..at.min(letters.len())].iter().collect();
                        self.drafts.push(text.trim_end_matches(*mark).replace('&', " x "));
                    }
                    while let Some(flag) = letters.get(at) {
                        match flag {
                            'e' if letter == 's' => {
                                judged.add(Categories::MUTATING, "sed runs what it replaces")
                            }
                            'w' => {
                                let (file, end) = line(&letters, at + 1);
                                self.judge_written(file.trim(), judged);
                                at = end;
                                break;
                            }
                            flag if flag.is_alphanumeric() => {}
                            _ => break,
                        }
                        at += 1;
                    }
                }
                'w' | 'W' => {
                    let (file, end) = line(&letters, at);
                    self.judge_written(file.trim(), judged);
                    at = end;
                }
                'r' | 'R' => {
                    let (file, end) = line(&letters, at);
                    self.judge_path(file.trim(), false, judged);
                    at = end;
                }
                'e' => {
                    judged.add(Categories::MUTATING, "sed runs a command");
                    let (command, end) = line(&letters, at);
                    self.subshell(|walk| walk.text(&command, Streams::default()))?;
                    at = end;
                }
                'a' | 'i' | 'c' => at = line(&letters, at).1,
                'b' | 't' | 'T' | ':' => {
                    while letters.get(at).is_some_and(|next| !matches!(next, ';' | '}' | '\n')) {
                        at += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A program for `awk`: `system`, pipes and output files.
    pub(super) fn awk(&mut self, script: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        if script == UNKNOWN.to_string() {
            judged.add(Categories::MUTATING, "the program is not known before the command runs");
            return Ok(());
        }
        let (bare, strings) = without_strings(script);
        if bare.contains("print") {
            // `print "rm " $1` for a shell behind the pipe.
            self.drafts.extend(strings.iter().take(16).map(|text| format!("{text}{UNKNOWN}")));
        }
        let runs = bare.contains("system") || pipes(&bare);
        if runs {
            judged.add(Categories::MUTATING, "awk runs a command");
            for line in &strings {
                self.subshell(|walk| walk.text(line, Streams { captured: true, ..Streams::default() }))?;
            }
        }
        if bare.contains("/inet/") || strings.iter().any(|text| text.starts_with("/inet")) {
            judged.add(Categories::NETWORKED, "awk opens a connection");
        }
        if prints_to_file(&bare) {
            match strings.is_empty() {
                true => judged.add(Categories::MUTATING, "awk writes a file"),
                false => {
                    for file in &strings {
                        self.judge_written(file, judged);
                    }
                }
            }
        } else if bare.contains("getline") {
            for file in &strings {
                self.judge_argument(file, false, judged);
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

/// The position behind the next unescaped mark.
fn section(letters: &[char], from: usize, mark: char) -> usize {
    let mut at = from;
    while let Some(letter) = letters.get(at) {
        at += 1;
        match letter {
            '\\' => at += 1,
            letter if *letter == mark => break,
            _ => {}
        }
    }
    at
}

/// The rest of the line, and the position behind it.
fn line(letters: &[char], from: usize) -> (String, usize) {
    let length = letters.get(from..).unwrap_or_default().iter().take_while(|letter| **letter != '\n').count();
    (letters.iter().skip(from).take(length).collect(), from + length + 1)
}

/// An `awk` program with `"` for every string and without regular expressions, and the strings.
fn without_strings(script: &str) -> (String, Vec<String>) {
    let letters: Vec<char> = script.chars().collect();
    let mut bare = String::new();
    let mut strings = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        at += 1;
        let before = bare.trim_end().chars().next_back();
        let begins_regex = letter == '/' && before.is_none_or(|before| "(~,{!&|;=\n}".contains(before));
        if letter == '"' || begins_regex {
            let end = section(&letters, at, letter);
            let inner: String = letters[at..end.saturating_sub(1).clamp(at, letters.len())].iter().collect();
            at = end;
            if letter == '"' {
                bare.push('"');
                strings.push(inner);
            } else {
                bare.push('r');
            }
        } else if letter == '#' {
            at = line(&letters, at).1;
            bare.push('\n');
        } else {
            bare.push(letter);
        }
    }
    (bare, strings)
}

/// Whether a single `|` stands in the program.
fn pipes(bare: &str) -> bool {
    let bytes = bare.as_bytes();
    bytes.iter().enumerate().any(|(index, byte)| {
        *byte == b'|' && bytes.get(index + 1) != Some(&b'|') && (index == 0 || bytes[index - 1] != b'|')
    })
}

/// Whether a `print` has a `>` behind it outside parentheses.
fn prints_to_file(bare: &str) -> bool {
    bare.match_indices("print").any(|(start, _)| {
        let mut depth = 0i32;
        for letter in bare[start..].chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ';' | '}' | '\n' => return false,
                '>' if depth <= 0 => return true,
                _ => {}
            }
        }
        false
    })
}
