//! Programs in other languages that only compute and print.
//!
//! Every name in them must be in the lists below; anything else, and anything whose meaning depends on more than its
//! name, makes a program one that is not followed.

use super::code::literals;

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

const PYTHON: &str = "import from as for in if else elif and or not is None True False lambda with return def try \
    except pass break continue while print len sum min max sorted list dict set tuple str int float bool range \
    enumerate zip repr abs round any all reversed isinstance type bytes bytearray hex oct bin ord chr divmod pow map \
    filter iter next format hash json sys re math string itertools functools collections datetime time random \
    statistics textwrap unicodedata hashlib base64 binascii struct csv decimal fractions platform pprint ast uuid \
    difflib calendar keyword tomllib load loads dumps dump stdin read readline readlines split rsplit splitlines \
    strip lstrip rstrip join keys values items get upper lower title startswith endswith count index find findall \
    finditer search match group groups sub encode decode Counter defaultdict most_common append extend sort version \
    version_info executable platform path argv maxsize byteorder stdout stderr write now today utcnow strftime \
    strptime isoformat date timedelta fromtimestamp timestamp perf_counter sqrt pi floor ceil log log2 sin cos \
    factorial gcd mean median stdev parse literal_eval hexdigest md5 sha1 sha256 sha512 b64encode b64decode reader \
    DictReader Decimal Fraction system_alias python_version machine node release processor uuid4 uuid1 isdigit \
    isalpha setdefault update pop copy partition zfill ljust rjust center indent sort_keys ensure_ascii key reverse \
    encoding utf errors newline default sep end file flush __version__ __name__ __file__ __doc__ VERSION \
    numpy pandas torch django flask scipy sklearn matplotlib tensorflow yaml toml pytest sqlalchemy fastapi pydantic \
    transformers jax cv2 PIL attr attrs click rich jinja2 np pd plt cuda is_available device_count safe_load \
    pprint fromkeys intersection union difference choice randint seed shuffle sample uniform product permutations \
    combinations chain reduce os getcwd listdir walk scandir exists isfile isdir getsize getmtime abspath basename splitext \
    cpu_count getenv environ getpid sep linesep pathlib Path rglob glob iterdir is_file is_dir stat st_size st_mtime \
    suffix stem name read_text read_bytes exit maxsplit title casefold swapcase capitalize hexversion byteorder \
    traceback inspect getsource signature typing os_release prefix base_prefix Exception ValueError KeyError IndexError TypeError e";

const NODE: &str = "const let var for of in if else return function typeof new null true false undefined while \
    console log error warn info table JSON parse stringify Object keys values entries assign Array isArray from \
    Math max min floor ceil round abs random pow sqrt PI Number String Boolean parseInt parseFloat isNaN Date now \
    toISOString getTime toString toFixed length map filter reduce forEach join split slice sort reverse push pop \
    concat indexOf includes find findIndex some every flat flatMap trim startsWith endsWith replace replaceAll match \
    test padStart padEnd toUpperCase toLowerCase charAt charCodeAt substring repeat at Set Map has get size add \
    process version versions arch platform argv cwd memoryUsage uptime release pid exitCode title env PATH NODE_ENV \
    require fs path os util url readFileSync existsSync statSync lstatSync readdirSync resolve basename dirname \
    extname cpus totalmem freemem hostname type inspect name dependencies devDependencies scripts engines main \
    description license author workspaces peerDependencies exports bin files node v8 modules utf8 a b c d e f i j k \
    m n o p r s t v x y key value item line lines data pkg result config count total acc cur obj arr str num";

const PERL: &str = "print printf say if unless else elsif while for foreach my and or not eq ne lt gt le ge cmp x \
    split join push pop shift unshift keys values sort reverse map grep scalar floor ceil fmod strftime sum sum0 max \
    min first uniq shuffle Dumper decode_json encode_json encode_base64 decode_base64 md5_hex sha1_hex sha256_hex scalar length substr index rindex sprintf uc \
    lc ucfirst lcfirst chomp chop defined exists delete last next BEGIN END int abs sqrt hex oct ord chr local STDERR \
    STDOUT STDIN each undef pos n t";

const RUBY: &str = "puts p print pp if unless else elsif end do each times map select reject sort sort_by reverse join \
    split upcase downcase capitalize size length count first last sum max min uniq keys values to_s to_i to_f strip \
    gsub sub include each_with_index inject reduce nil true false and or not then RUBY_VERSION RUBY_PLATFORM \
    RUBY_ENGINE Time now Math sqrt PI Integer Float String format rjust ljust chars lines zip each_line x i n s a b";

const PHP: &str = "echo print print_r var_dump var_export PHP_VERSION PHP_OS PHP_EOL phpversion strlen strtoupper \
    strtolower ucfirst str_repeat str_replace implode explode count sizeof array_sum array_keys array_values array_map \
    json_encode json_decode range max min abs round floor ceil sqrt pow date time microtime if else foreach for as \
    true false null intdiv number_format sprintf printf php_sapi_name phpinfo extension_loaded";

const LUA: &str = "print tostring tonumber string format rep upper lower len sub reverse byte math floor ceil sqrt pi \
    max min abs huge type pairs ipairs for in do end if then else elseif while local and or not nil true false _VERSION \
    os date time clock table concat insert sort io write";

/// Modules of Perl that change nothing when they are loaded.
pub(super) const PERL_MODULES: &[&str] = &[
    "strict", "warnings", "utf8", "feature", "POSIX", "List::Util", "Scalar::Util", "Data::Dumper", "JSON::PP", "JSON",
    "MIME::Base64", "Time::HiRes", "Time::Local", "Time::Piece", "Digest::MD5", "Digest::SHA", "Encode", "Math::BigInt",
    "Text::Wrap", "Config",
];

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
                if language == Language::Python {
                    // The letter in front belongs to the literal: `f""`, `rb""`.
                    let kept = bare.trim_end_matches(['f', 'F', 'r', 'b', 'R', 'B']).len();
                    if !bare[..kept].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
                        bare.truncate(kept);
                    }
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
        Language::Lua => &["](", ")(", "[["],
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
        if is_known || own.contains(&word) && !behind.starts_with('(') {
            continue;
        }
        // A variable: assigned, bound by a loop, or a parameter.
        let keyword = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let binds = behind.starts_with('=') && !behind.starts_with("==")
            || matches!(keyword, "for" | "as" | "const" | "let" | "var" | "lambda")
            || behind.starts_with(" in ")
            || behind.starts_with("in ")
            || behind.starts_with("=>");
        let is_open = language == Language::Python
            && word == "open"
            && behind.starts_with('(')
            && !before.ends_with('.');
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
            let count = code.matches("require").count();
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
                            matches!(name, "fs" | "path" | "os" | "util" | "url") || name.ends_with(".json")
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
        ] {
            assert!(!only_prints(language, code), "{code}");
        }
    }
}
