//! Names of other languages that compute or print, and do nothing else.

/// Names of Python that compute or print.
pub(super) const PYTHON: &str = "import from as for in if else elif and or not is None True False lambda with return def try \
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
    zlib crc32 struct unpack secrets token_hex token_urlsafe sysconfig get_paths get_path site getsitepackages importlib \
    metadata sqlite3 sqlite_version assert quote unquote urlparse urlencode urljoin parse_qs netloc scheme query html \
    escape unescape ascii_letters ascii_lowercase ascii_uppercase digits punctuation locale getpreferredencoding \
    shorten fill wrap dedent operator itemgetter dataclasses enum heapq bisect array calcsize from_bytes to_bytes \
    bit_length popitem rstrip lstrip isspace isupper islower swapcase expandtabs format_map removeprefix removesuffix \
    fsum prod comb perm isqrt hypot atan2 tan exp log10 radians degrees inf nan total_seconds weekday days seconds \
    year month day hour minute timezone utc zoneinfo ZoneInfo repeat cycle accumulate groupby zip_longest islice count \
    starmap partial lru_cache fullmatch MULTILINE DOTALL IGNORECASE span pstdev variance mode quantiles \
    traceback inspect getsource signature typing os_release prefix base_prefix Exception ValueError KeyError IndexError TypeError e";

/// Names of JavaScript that compute or print.
pub(super) const NODE: &str = "const let var for of in if else return function typeof new null true false undefined while \
    Buffer crypto createHash update digest randomUUID randomBytes try catch finally message \
    localeCompare toLocaleString toLocaleDateString getFullYear trunc sign codePointAt fromCharCode fromEntries isFile \
    isDirectory withFileTypes mtime isInteger keys BigInt Infinity NaN lastIndexOf fill matchAll console log error warn info table JSON parse stringify Object keys values entries assign Array isArray from \
    Math max min floor ceil round abs random pow sqrt PI Number String Boolean parseInt parseFloat isNaN Date now \
    toISOString getTime toString toFixed length map filter reduce forEach join split slice sort reverse push pop \
    concat indexOf includes find findIndex some every flat flatMap trim startsWith endsWith replace replaceAll match \
    test padStart padEnd toUpperCase toLowerCase charAt charCodeAt substring repeat at Set Map has get size add \
    process version versions arch platform argv cwd memoryUsage uptime release pid exitCode title env PATH NODE_ENV \
    require fs path os util url readFileSync existsSync statSync lstatSync readdirSync resolve basename dirname \
    extname cpus totalmem freemem hostname type inspect name dependencies devDependencies scripts engines main \
    description license author workspaces peerDependencies exports bin files node v8 modules utf8 a b c d e f i j k \
    m n o p r s t v x y key value item line lines data pkg result config count total acc cur obj arr str num";

/// Names of Perl that compute or print.
pub(super) const PERL: &str = "print printf say if unless else elsif while for foreach my and or not eq ne lt gt le ge cmp x \
    split join push pop shift unshift keys values sort reverse map grep scalar floor ceil fmod strftime sum sum0 max \
    min first uniq shuffle Dumper decode_json encode_json encode_base64 decode_base64 md5_hex sha1_hex sha256_hex scalar length substr index rindex sprintf uc \
    lc ucfirst lcfirst chomp chop defined exists delete last next BEGIN END int abs sqrt hex oct ord chr local STDERR \
    STDOUT STDIN each undef pos n t";

/// Names of Ruby that compute or print.
pub(super) const RUBY: &str = "puts p print pp if unless else elsif end do each times map select reject sort sort_by reverse join \
    split upcase downcase capitalize size length count first last sum max min uniq keys values to_s to_i to_f strip \
    gsub sub include each_with_index inject reduce nil true false and or not then RUBY_VERSION RUBY_PLATFORM \
    RUBY_ENGINE Time now Math sqrt PI Integer Float String format rjust ljust chars lines zip each_line x i n s a b";

/// Names of PHP that compute or print.
pub(super) const PHP: &str = "echo print print_r var_dump var_export PHP_VERSION PHP_OS PHP_EOL phpversion strlen strtoupper \
    strtolower ucfirst str_repeat str_replace implode explode count sizeof array_sum array_keys array_values array_map \
    json_encode json_decode range max min abs round floor ceil sqrt pow date time microtime if else foreach for as \
    true false null intdiv number_format sprintf printf php_sapi_name phpinfo extension_loaded";

/// Names of Lua that compute or print.
pub(super) const LUA: &str = "print tostring tonumber string format rep upper lower len sub reverse byte math floor ceil sqrt pi \
    max min abs huge type ipairs for in do end if then else elseif while local and or not nil true false _VERSION \
    os date time clock table concat insert io write";

/// Modules of Perl that change nothing when they are loaded.
pub(super) const PERL_MODULES: &[&str] = &[
    "strict",
    "warnings",
    "utf8",
    "feature",
    "POSIX",
    "List::Util",
    "Scalar::Util",
    "Data::Dumper",
    "JSON::PP",
    "JSON",
    "MIME::Base64",
    "Time::HiRes",
    "Time::Local",
    "Time::Piece",
    "Digest::MD5",
    "Digest::SHA",
    "Encode",
    "Math::BigInt",
    "Text::Wrap",
    "Config",
];

/// Builtins of Python with which any name can be reached or any code be run.
pub(super) const REACHING_BUILTINS: &[&str] = &[
    "exec",
    "eval",
    "compile",
    "open",
    "input",
    "globals",
    "locals",
    "vars",
    "getattr",
    "setattr",
    "delattr",
    "breakpoint",
    "help",
    "__import__",
    "__builtins__",
    "__loader__",
    "memoryview",
    "super",
    "object",
];
