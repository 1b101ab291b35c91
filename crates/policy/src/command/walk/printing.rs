//! Programs whose output is known, as far as it can become a command again.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, Input, Output, UNKNOWN, Walk};

impl Walk<'_> {
    pub(super) fn echo(&mut self, call: &Call<'_>, judged: &mut Judged) -> Output {
        judged.add(Categories::READ_ONLY, "prints its arguments");
        self.listed(call, judged);
        let mut escapes = false;
        let words: Vec<&str> = call
            .args
            .iter()
            .map(|arg| arg.text.as_str())
            .skip_while(|word| {
                let is_flag = word.len() > 1
                    && word.starts_with('-')
                    && word[1..].bytes().all(|byte| b"neE".contains(&byte));
                escapes |= is_flag && word.contains('e');
                is_flag
            })
            .collect();
        let text = words.join(" ");
        if text.contains(UNKNOWN) && text.trim_matches(UNKNOWN).is_empty() {
            return Output::default();
        }
        Output::known(if escapes { unescaped(&text) } else { text })
    }

    /// `echo /home/*` lists a directory.
    fn listed(&mut self, call: &Call<'_>, judged: &mut Judged) {
        for arg in call.args.iter().filter(|arg| arg.is_pattern && arg.text.contains('/')) {
            self.judge_path(&arg.text, false, judged);
        }
    }

    pub(super) fn printf(&mut self, call: &Call<'_>, judged: &mut Judged) -> Output {
        judged.add(Categories::READ_ONLY, "prints its arguments");
        self.listed(call, judged);
        if call.args.first().is_some_and(|arg| arg.text == "-v") {
            if let Some(name) = call.args.get(1) {
                let value = formatted(&call.args[2..]);
                self.set(&name.text.clone(), value);
            }
            return Output::default();
        }
        Output::known(formatted(call.args))
    }

    /// `cat` passes its input on.
    pub(super) fn cat(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        self.by_table(call, judged)?;
        let reads_input = call.args.iter().all(|arg| arg.text.starts_with('-') || arg.text == "/dev/stdin");
        Ok(match &call.streams.input {
            Input::Text(text) if reads_input => Output::known(text.clone()),
            Input::Unknown { hidden } if reads_input => Output { text: None, hidden: *hidden },
            _ => Output::default(),
        })
    }

    pub(super) fn base64(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        self.by_table(call, judged)?;
        let decodes = call.options().has("-d");
        Ok(match (decodes, &call.streams.input) {
            (true, Input::Text(text)) => match decoded(text) {
                Some(text) => Output::known(text),
                None => Output { text: None, hidden: true },
            },
            (true, _) => Output { text: None, hidden: true },
            (false, _) => Output::default(),
        })
    }

    /// A program whose output is not followed, and that may be code in disguise.
    pub(super) fn decode(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        self.by_table(call, judged)?;
        let options = call.options();
        let text = match &call.streams.input {
            Input::Text(text) if call.name == "xxd" && options.has("-r") && options.has("-p") => {
                from_hex(text)
            }
            _ => None,
        };
        Ok(Output { hidden: text.is_none(), text })
    }

    pub(super) fn reverse(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        self.by_table(call, judged)?;
        Ok(match &call.streams.input {
            Input::Text(text) => {
                let lines: Vec<String> = text.lines().map(|line| line.chars().rev().collect()).collect();
                Output::known(lines.join("\n"))
            }
            _ => Output { text: None, hidden: true },
        })
    }

    /// `tr` of literal sets of the same length.
    pub(super) fn translate(&mut self, call: &Call<'_>, judged: &mut Judged) -> Output {
        judged.add(Categories::READ_ONLY, "translates characters");
        let Input::Text(text) = &call.streams.input else { return Output { text: None, hidden: true } };
        match call.args {
            [from, to] if !from.text.starts_with('-') => {
                let (from, to) = (letters(&from.text), letters(&to.text));
                let replace = |letter: char| match from.iter().position(|known| *known == letter) {
                    Some(index) => to.get(index).or(to.last()).copied().unwrap_or(letter),
                    None => letter,
                };
                Output::known(text.chars().map(replace).collect::<String>())
            }
            [flag, set] if flag.text == "-d" => {
                let set = letters(&set.text);
                Output::known(text.chars().filter(|letter| !set.contains(letter)).collect::<String>())
            }
            _ => Output { text: None, hidden: true },
        }
    }

    /// `dirname PATH` of a known path.
    pub(super) fn dirname(&mut self, call: &Call<'_>, judged: &mut Judged) -> Output {
        judged.add(Categories::READ_ONLY, "prints a part of a path");
        let Some(arg) = call.args.iter().find(|arg| !arg.text.starts_with('-')) else {
            return Output::default();
        };
        let path = arg.text.trim_end_matches('/');
        if path.contains(UNKNOWN) {
            return Output::default();
        }
        Output::known(match (call.name, path.rsplit_once('/')) {
            ("basename", Some((_, name))) => name,
            ("basename", None) => path,
            (_, Some(("", _))) => "/",
            (_, Some((directory, _))) => directory,
            (_, None) => ".",
        })
    }

    /// `which python` and `command -v python` print a path that ends in the program's name.
    pub(super) fn which(&mut self, call: &Call<'_>, judged: &mut Judged) -> Output {
        judged.add(Categories::READ_ONLY, "finds a program");
        match call.args.iter().find(|arg| !arg.text.starts_with('-')) {
            Some(arg) => Output::known(arg.text.clone()),
            None => Output::default(),
        }
    }
}

/// What `printf` prints.
fn formatted(args: &[Arg]) -> String {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).filter(|text| *text != "--").collect();
    let Some((format, values)) = texts.split_first() else { return String::new() };
    let format = unescaped(format);
    let mut out = String::new();
    let mut values = values.iter();
    loop {
        let mut took = false;
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            match letters.by_ref().find(|next| next.is_alphabetic() || *next == '%') {
                Some('%') => out.push('%'),
                Some(kind) => {
                    took = true;
                    let value = values.next().copied().unwrap_or_default();
                    out.push_str(&if kind == 'b' { unescaped(value) } else { value.to_owned() });
                }
                None => {}
            }
        }
        if !took || values.len() == 0 || out.len() > 16 * 1024 {
            break;
        }
    }
    out
}

/// The members of a set of `tr`: ranges and escapes are expanded.
fn letters(set: &str) -> Vec<char> {
    let set: Vec<char> = unescaped(set).chars().collect();
    let mut members = Vec::new();
    let mut at = 0;
    while at < set.len() {
        match (set[at], set.get(at + 1), set.get(at + 2)) {
            (first, Some('-'), Some(last)) if first <= *last && members.len() < 1024 => {
                members.extend((first..=*last).take(256));
                at += 3;
            }
            (letter, ..) => {
                members.push(letter);
                at += 1;
            }
        }
    }
    members
}

/// Text with the escapes of `echo -e` and `printf`.
fn unescaped(text: &str) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let (radix, most) = match letters.peek() {
            Some('x') => (16, 2),
            Some('0'..='7') => (8, 4),
            Some('u') => (16, 4),
            _ => (0, 0),
        };
        if radix == 0 {
            match letters.next() {
                Some('n') => bytes.push(b'\n'),
                Some('t') => bytes.push(b'\t'),
                Some('r') => bytes.push(b'\r'),
                Some(other) if other != '\\' => {
                    bytes.push(b'\\');
                    bytes.extend(other.encode_utf8(&mut [0; 4]).bytes());
                }
                _ => bytes.push(b'\\'),
            }
            continue;
        }
        if radix == 16 {
            letters.next();
        }
        let mut value = 0u32;
        for _ in 0..most {
            let Some(digit) = letters.peek().and_then(|digit| digit.to_digit(radix)) else { break };
            value = value.wrapping_mul(radix).wrapping_add(digit);
            letters.next();
        }
        match u8::try_from(value) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend(char::from_u32(value).unwrap_or('?').encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).replace(UNKNOWN, "")
}

/// Decoded hexadecimal digits, if they are text.
fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes = digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok())
        .collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains(UNKNOWN))
}

/// Decoded base64, if it is text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut bits = 0u32;
    let mut count = 0;
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        assert_eq!(decoded("cm0gLXJmIC8K").as_deref(), Some("rm -rf /\n"));
        assert_eq!(decoded("cm0gLXJmIHg=").as_deref(), Some("rm -rf x"));
        assert_eq!(decoded("***"), None);
    }

    #[test]
    fn sets_of_characters_are_expanded() {
        assert_eq!(letters("a-c_"), ['a', 'b', 'c', '_']);
        assert_eq!(unescaped(r"\x72\155 \n"), "rm \n");
    }
}
