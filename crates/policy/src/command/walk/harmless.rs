//! Programs in other languages that only compute and print.
//!
//! Every name in them must be in the lists below; anything else, and anything whose meaning depends on more than its
//! name, makes a program one that is not followed.

use super::code::literals;
use super::names::{LUA, NODE, PERL, PHP, PYTHON, REACHING_BUILTINS, RUBY};

/// A language whose short programs can be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Language {
    Python,
    Node,
    Perl,
    Ruby,
    Php,
    Lua,
}

impl Language {
    /// The language of an interpreter.
    pub(super) fn of(program: &str) -> Option<Self> {
        let name = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        Some(match name {
            "python" | "pypy" => Self::Python,
            "node" | "nodejs" => Self::Node,
            "perl" => Self::Perl,
            "ruby" => Self::Ruby,
            "php" => Self::Php,
            "lua" | "luajit" | "texlua" => Self::Lua,
            _ => return None,
        })
    }
}

/// The longest program that is read.
const MAX_CODE: usize = 4096;

/// Whether a program only computes and prints. Files that it opens are named by its literals.
pub(super) fn only_prints(language: Language, code: &str) -> bool {
    if code.len() > MAX_CODE || code.contains('\0') || language == Language::Php && code.contains('\\') {
        return false;
    }
    let Some(bare) = without_literals(language, code) else { return false };
    names_are_known(language, &bare) && modes_are_harmless(language, code)
}

/// The program without its texts and regular expressions, but with the code in them; `None` if it is not clear.
fn without_literals(language: Language, code: &str) -> Option<String> {
    let letters: Vec<char> = code.chars().collect();
    let mut bare = String::new();
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        at += 1;
        match letter {
            '`' => return None,
            '#' if language == Language::Python => {
                at += letters[at..].iter().take_while(|letter| **letter != '\n').count();
            }
            '"' | '\'' => {
                let end = closing(&letters, at, letter)?;
                let inner: String = letters[at..end].iter().collect();
                at = end + 1;
                let is_formatted = language == Language::Python && bare.ends_with(['f', 'F']);
                if language == Language::Python {
                    // The letter in front belongs to the literal: `f""`, `rb""`.
                    let kept = bare.trim_end_matches(['f', 'F', 'r', 'b', 'R', 'B']).len();
                    if !bare[..kept].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
                        bare.truncate(kept);
                    }
                }
                let has_code = match language {
                    Language::Python => is_formatted && inner.contains('{'),
                    Language::Node | Language::Lua => false,
                    Language::Ruby => letter == '"' && inner.contains("#{"),
                    Language::Perl | Language::Php => {
                        letter == '"' && ["@{", "${", "{$"].iter().any(|mark| inner.contains(mark))
                    }
                };
                if has_code {
                    if language != Language::Python {
                        return None;
                    }
                    bare.push(' ');
                    bare.push_str(&inner.replace(['{', '}', ':'], " "));
                }
                bare.push('"');
            }
            '/' if is_regex(language, &bare) => {
                let end = closing(&letters, at, '/')?;
                let inner: String = letters[at..end].iter().collect();
                if runs_code(&inner) {
                    return None;
                }
                let flags = letters[end + 1..].iter().take_while(|letter| letter.is_alphabetic()).count();
                at = end + 1 + flags;
                bare.push('"');
            }
            's' | 'y' | 'm' | 'q'
                if language == Language::Perl
                    && !bare
                        .ends_with(|before: char| before.is_alphanumeric() || "$@%_{".contains(before)) =>
            {
                let length = letters[at - 1..].iter().take_while(|letter| letter.is_alphanumeric()).count();
                let word: String = letters[at - 1..at - 1 + length].iter().collect();
                let mark = letters.get(at - 1 + length).copied().unwrap_or(' ');
                let sections = match word.as_str() {
                    "s" | "y" => 2,
                    "m" | "q" | "qq" | "qw" | "qr" => 1,
                    _ => 0,
                };
                if sections == 0 || !"/|!,#:".contains(mark) {
                    bare.push(letter);
                    continue;
                }
                at += length;
                for _ in 0..sections {
                    let end = closing(&letters, at, mark)?;
                    let inner: String = letters[at..end].iter().collect();
                    if runs_code(&inner) {
                        return None;
                    }
                    at = end + 1;
                }
                let flags = letters[at..].iter().take_while(|letter| letter.is_alphabetic()).count();
                if letters[at..at + flags].contains(&'e') {
                    return None;
                }
                at += flags;
                bare.push('"');
            }
            _ => bare.push(letter),
        }
    }
    Some(bare)
}

/// Whether a regular expression or its interpolations may run code.
fn runs_code(regex: &str) -> bool {
    regex.contains("(?") && regex.contains('{') || ["@{", "${", "#{"].iter().any(|mark| regex.contains(mark))
}

/// The position of the next unescaped mark.
fn closing(letters: &[char], from: usize, mark: char) -> Option<usize> {
    let mut at = from;
    while let Some(letter) = letters.get(at) {
        match letter {
            '\\' => at += 1,
            letter if *letter == mark => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a `/` begins a regular expression.
fn is_regex(language: Language, bare: &str) -> bool {
    let before = bare.trim_end();
    let is_operand = before.ends_with(|letter: char| letter.is_alphanumeric() || ")]\"_".contains(letter));
    let word = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    match language {
        Language::Python | Language::Php | Language::Lua => false,
        _ => {
            !is_operand
                || matches!(
                    word,
                    "if" | "unless" | "and" | "or" | "split" | "grep" | "not" | "while" | "print"
                )
        }
    }
}

/// Whether every name is known, and nothing is called that is no name.
fn names_are_known(language: Language, bare: &str) -> bool {
    let names = match language {
        Language::Python => PYTHON,
        Language::Node => NODE,
        Language::Perl => PERL,
        Language::Ruby => RUBY,
        Language::Php => PHP,
        Language::Lua => LUA,
    };
    // A call of an element or of a result, decorators, pipes and other languages' ways to run a command.
    // What a function of a module for files or processes begins with, and ways to reach every other name.
    const REACHING: &[&str] = &[
        "unlink",
        "rm",
        "write",
        "append",
        "exec",
        "spawn",
        "fork",
        "rename",
        "copy",
        "mkdir",
        "chmod",
        "chown",
        "truncate",
        "symlink",
        "link",
        "open",
        "create",
        "kill",
        "cp",
        "utimes",
        "promises",
        "constructor",
        "prototype",
        "binding",
        "main",
        "mainModule",
        "Module",
        "call",
        "apply",
        "bind",
        "eval",
        "Function",
        "global",
        "__",
    ];
    // `str.replace` computes, and those of modules for files rename.
    let renames = ["os", "pathlib", "Path", "shutil"].iter().any(|name| {
        bare.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == *name)
    });
    let odd: &[&str] = match language {
        Language::Python => &["](", ")(", "@", "!"],
        Language::Node => &["](", ")(", "[\"]", "=>("],
        Language::Perl => &["|", ">\"", "->", "<<"],
        Language::Ruby => &["%x", "&", "<<", "|\"", "->", "::"],
        Language::Php => &["](", ")(", "->", "::", "<?"],
        Language::Lua => &["[", ")(", ")\"", "){"],
    };
    if odd.iter().any(|mark| bare.contains(mark) && !(*mark == "|" && bare.contains("||"))) {
        return false;
    }
    let bytes = bare.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut own: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_part(bytes[at]) {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_part(**byte)).count();
        let word = &bare[at..at + length];
        let before = bare[..at].trim_end();
        let behind = bare[at + length..].trim_start();
        at += length;
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            continue;
        }
        let is_variable = match language {
            Language::Perl | Language::Php => before.ends_with(['$', '@', '%', '#']),
            Language::Ruby => before.ends_with('$'),
            Language::Python | Language::Node | Language::Lua => false,
        };
        let is_known = names.split_ascii_whitespace().any(|name| name == word)
            || language == Language::Python && word == "replace" && before.ends_with('.') && !renames;
        if is_variable {
            if behind.starts_with('(') || word.contains("ENV") || word.contains("INC") {
                return false;
            }
            continue;
        }
        let is_open = language == Language::Python
            && word == "open"
            && behind.starts_with('(')
            && !before.ends_with('.');
        if language == Language::Python && REACHING_BUILTINS.contains(&word) && !is_open {
            return false;
        }
        // Lua calls with a text or a table without parentheses.
        if language == Language::Lua && own.contains(&word) && behind.starts_with(['"', '{']) {
            return false;
        }
        let is_known = is_known || language == Language::Python && is_harmless_use(word, before, behind);
        if is_known || own.contains(&word) && !behind.starts_with('(') {
            continue;
        }
        // A variable: assigned, bound by a loop, or a parameter.
        let keyword = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let binds = behind.starts_with('=') && !behind.starts_with("==")
            || matches!(keyword, "for" | "as" | "const" | "let" | "var" | "lambda")
            || behind.starts_with(" in ")
            || behind.starts_with("in ")
            || behind.starts_with("=>")
            || language == Language::Python && is_unpacked(before, behind)
            || language == Language::Node && is_caught(before);
        let is_member = before.ends_with('.');
        let is_data = language == Language::Node
            && is_member
            && !behind.starts_with('(')
            && !REACHING.iter().any(|start| word.starts_with(start));
        if is_open || is_data {
            continue;
        }
        if !binds || is_member || matches!(language, Language::Perl | Language::Php) {
            // Generators use their variable before they bind it: `len(l) for l in open("f")`.
            let is_bound_later =
                !is_member && !behind.starts_with('(') && bare.contains(&format!("for {word} in "));
            if !is_bound_later {
                return false;
            }
        }
        own.push(word);
    }
    true
}

/// Whether a name is that of an error: `try { … } catch (e)`.
fn is_caught(before: &str) -> bool {
    let before = before.strip_suffix('(').map(str::trim_end).and_then(|before| before.strip_suffix("catch"));
    before.is_some_and(|before| before.trim_end().ends_with('}'))
}

/// Modules that may do more, in uses that do not.
fn is_harmless_use(word: &str, before: &str, behind: &str) -> bool {
    let uses: &[&str] = match word {
        "requests" | "httpx" | "aiohttp" | "urllib3" | "boto3" | "openai" | "anthropic" | "psycopg2"
        | "redis" | "setuptools" | "pip" | "uvicorn" | "celery" | "tqdm" => {
            &[".__version__", ".__file__", ".VERSION"]
        }
        "socket" => &[".gethostname()"],
        "shutil" => &[".which(", ".disk_usage(", ".get_terminal_size("],
        "urllib" => return behind.starts_with(".parse"),
        "which" | "disk_usage" | "get_terminal_size" | "gethostname" => return before.ends_with('.'),
        _ => return false,
    };
    let line = before.rsplit([';', '\n']).next().unwrap_or_default().trim();
    let is_import = (line == "import" || line.starts_with("import "))
        && (behind.is_empty()
            || behind.starts_with([';', ','])
            || !behind.starts_with(['.', '=']) && !behind.starts_with("as "));
    is_import || uses.iter().any(|one| behind.starts_with(one))
}

/// Whether a name is one of several that are assigned at once: `a, b = …`, `for k, v in …`.
fn is_unpacked(before: &str, behind: &str) -> bool {
    const LONGEST: usize = 200;
    if !before.ends_with(',') && !behind.starts_with(',') {
        return false;
    }
    let is_list = |text: &str| {
        text.chars().all(|letter| {
            letter.is_alphanumeric() || letter == '_' || letter == ',' || letter.is_whitespace()
        })
    };
    let target = before.rsplit([';', '\n', ':']).next().unwrap_or_default().trim_start();
    let target = target.rsplit("for ").next().unwrap_or_default();
    let Some(end) = behind.find(" in ").into_iter().chain(behind.find('=')).min() else { return false };
    let rest = &behind[..end];
    if target.len() + rest.len() > LONGEST {
        return false;
    }
    (target.contains(',') || rest.contains(','))
        && is_list(target)
        && is_list(rest)
        && !behind[end..].starts_with("==")
}

/// Whether files are only read, and only data is required.
fn modes_are_harmless(language: Language, code: &str) -> bool {
    match language {
        Language::Python => code.match_indices("open(").all(|(at, _)| {
            let rest = &code[at + 5..];
            let Some(end) = rest.find(')') else { return false };
            let parts: Vec<&str> = rest[..end].split(',').map(str::trim).collect();
            parts.iter().skip(1).all(|part| {
                matches!(part.trim_matches(['\'', '"']), "r" | "rb" | "rt")
                    || part.starts_with("encoding=")
                    || part.starts_with("errors=")
                    || part.starts_with("newline=")
            })
        }),
        Language::Node => {
            // `require.resolve` only finds a file.
            let count = code.matches("require").count() - code.matches("require.resolve(").count();
            let harmless = code
                .match_indices("require(")
                .filter(|(at, _)| {
                    let rest = &code[at + 8..];
                    let inner = rest.split(')').next().unwrap_or_default();
                    let texts = literals(inner);
                    let is_whole =
                        inner.starts_with(['\'', '"']) && inner.ends_with(['\'', '"']) && texts.len() == 1;
                    is_whole
                        && texts.iter().all(|literal| {
                            let name = literal.text.trim_start_matches("node:");
                            matches!(name, "fs" | "path" | "os" | "util" | "url" | "crypto")
                                || name.ends_with(".json")
                        })
                })
                .count();
            count == harmless
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_only_print_are_told_from_all_others() {
        for (language, code) in [
            (Language::Python, "print(1+1)"),
            (Language::Python, "import sys; print(sys.version)"),
            (Language::Python, "import json; print(json.load(open('package.json'))['version'])"),
            (Language::Python, "import sys, json; d=json.load(sys.stdin); print(d[\"name\"])"),
            (Language::Python, "print(sum(len(l) for l in open('README.md')))"),
            (Language::Python, "import numpy; print(numpy.__version__)"),
            (Language::Python, "print('rm -rf /; curl https://x')"),
            (Language::Node, "console.log(process.version)"),
            (Language::Node, "require('./package.json').version"),
            (Language::Node, "console.log(JSON.parse(require('fs').readFileSync('a.json')).name)"),
            (Language::Perl, "print if /foo/"),
            (Language::Perl, "s/a/b/g"),
            (Language::Perl, "print $F[1]"),
            (Language::Ruby, "puts 1+1"),
            (Language::Php, "echo 1;"),
            (Language::Python, "x = [1]; y = sum(x)/len(x); print(f'{y:.2f}')"),
            (
                Language::Python,
                "import os\nfor root, dirs, files in os.walk('.'):\n    print(root, len(files))",
            ),
            (Language::Python, "import requests; print(requests.__version__)"),
            (Language::Python, "import urllib.parse; print(urllib.parse.quote('a b'))"),
            (Language::Python, "import shutil; print(shutil.which('git'))"),
            (Language::Python, "print('a'.replace('a', 'b'))"),
            (Language::Node, "try { JSON.parse('x') } catch (e) { console.log(e.message) }"),
            (Language::Node, "console.log(require.resolve('react'))"),
            (Language::Lua, "print(1)"),
            (Language::Lua, "for i = 1, 3 do print(i) end"),
        ] {
            assert!(only_prints(language, code), "{code}");
        }
        for (language, code) in [
            (Language::Python, "open('x','w')"),
            (Language::Python, "open('x', mode)"),
            (Language::Python, "import os; os.remove('x')"),
            (Language::Python, "__import__('os').system('x')"),
            (Language::Python, "f = exec; f('x')"),
            (Language::Python, "print(().__class__.__base__.__subclasses__())"),
            (Language::Python, "import app; print(app)"),
            (Language::Python, "import sys; sys.modules['os'].system('x')"),
            (Language::Python, "import json; json.codecs.open('x', 'w')"),
            (Language::Python, "print(f'{exec(1)}')"),
            (Language::Python, "[f for f in [eval]][0]('x')"),
            (Language::Node, "require('fs').unlinkSync('x')"),
            (Language::Node, "require('fs')['unlink'+'Sync']('x')"),
            (Language::Node, "require('child_process').execSync('x')"),
            (Language::Node, "const r=require; r('child_process')"),
            (Language::Node, "['x'].forEach(require('fs').unlinkSync)"),
            (Language::Node, "[].map.constructor('x')()"),
            (Language::Node, "require('./build.js')"),
            (Language::Perl, "system('x')"),
            (Language::Perl, "s/a/unlink 'b'/e"),
            (Language::Perl, "print `x`"),
            (Language::Perl, "unlink $_"),
            (Language::Perl, "/(?{ system 'x' })/"),
            (Language::Perl, "print \"@{[ system 'x' ]}\""),
            (Language::Ruby, "puts `x`"),
            (Language::Ruby, "puts \"#{system 'x'}\""),
            (Language::Ruby, "puts %x(ls)"),
            (Language::Php, "$f='system'; $f('x');"),
            (Language::Php, "unlink('x');"),
            (Language::Python, "import os; os.replace('a', 'b')"),
            (Language::Python, "from pathlib import Path; Path('a').replace('b')"),
            (Language::Python, "from pathlib import Path; Path('a').write_text('b')"),
            (Language::Python, "from os import replace; replace('a', 'b')"),
            (Language::Python, "import requests; requests.get('x')"),
            (Language::Python, "import requests as json; json.get('x')"),
            (Language::Python, "import sys, shutil; shutil.copy('a', 'b')"),
            (Language::Python, "from shutil import copy; copy('a', 'b')"),
            (Language::Python, "from urllib import request as json"),
            (Language::Python, "a, b = exec, 1"),
            (Language::Python, "f = lambda: exec, 1 in [1]"),
            (Language::Python, "print(f'{open(\"x\", mode)}')"),
            (Language::Node, "x.catch(eval)"),
            (Language::Lua, "os.execute('x')"),
            (Language::Lua, "os['execute']'x'"),
            (Language::Lua, "local f = print f'x'"),
            (Language::Lua, "require 'x'"),
        ] {
            assert!(!only_prints(language, code), "{code}");
        }
    }
}
