//! The part of the D-Bus wire format that a call of systemd's manager needs. Pure: bytes in, values out.

/// A value of the arguments of a call.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Bool(bool),
    Text(String),
    Number(u64),
    Pids(Vec<u32>),
    /// `a(sv)`.
    Properties(Vec<(&'static str, Value)>),
    /// `a(sa(sv))`, always empty: no call here starts other units.
    NoUnits,
}

/// A reply.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Reply {
    /// The call succeeded.
    Done,
    /// The call failed.
    Refused {
        /// The error's name.
        name: String,
        /// Its message.
        message: String,
    },
    /// A message that is not a reply.
    Unrelated,
}

/// Length of the message prefix, which contains the length of the rest.
pub(super) const PREFIX: usize = 16;
/// The longest reply that is read.
const LONGEST: u32 = 1 << 20;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;

/// A call of a method of systemd's manager.
pub(super) fn call(method: &str, arguments: &[Value]) -> Vec<u8> {
    let mut body = Writer::default();
    let mut signature = String::new();
    for argument in arguments {
        signature.push_str(argument.signature());
        body.value(argument);
    }
    let mut message = Writer::default();
    message.0.extend([b'l', CALL, 0, 1]);
    message.number(body.0.len() as u32);
    message.number(1);
    message.array(8, |fields| {
        let names = [
            (1, "o", "/org/freedesktop/systemd1"),
            (2, "s", "org.freedesktop.systemd1.Manager"),
            (3, "s", method),
            (6, "s", "org.freedesktop.systemd1"),
        ];
        for (code, kind, text) in names {
            fields.align(8);
            fields.0.push(code);
            fields.signature(kind);
            fields.text(text);
        }
        fields.align(8);
        fields.0.push(8);
        fields.signature("g");
        fields.signature(&signature);
    });
    message.align(8);
    message.0.extend(body.0);
    message.0
}

/// The number of bytes after the prefix; `None` if it is not a valid prefix.
pub(super) fn rest_of(prefix: &[u8; PREFIX]) -> Option<usize> {
    let fields = number_at(prefix, 12)?;
    let body = number_at(prefix, 4)?;
    let fits = prefix[0] == b'l' && fields <= LONGEST && body <= LONGEST;
    fits.then(|| (fields as usize).next_multiple_of(8) + body as usize)
}

/// Parses a complete message.
pub(super) fn reply(message: &[u8]) -> Reply {
    match message.get(1) {
        Some(&RETURN) => Reply::Done,
        Some(&ERROR) => {
            let fields = number_at(message, 12).unwrap_or(0) as usize;
            let body = PREFIX + fields.next_multiple_of(8);
            let name = error_name(message.get(PREFIX..PREFIX + fields).unwrap_or_default());
            let message = text_at(message, body).unwrap_or_default();
            Reply::Refused { name: name.unwrap_or_default(), message }
        }
        _ => Reply::Unrelated,
    }
}

/// Finds the header field with the error name.
fn error_name(fields: &[u8]) -> Option<String> {
    let mut at = 0usize;
    loop {
        at = at.next_multiple_of(8);
        let (code, kind) = (*fields.get(at)?, *fields.get(at + 2)?);
        let value = at + 4;
        at = match kind {
            b's' | b'o' if code == 4 => return text_at(fields, value.next_multiple_of(4)),
            b's' | b'o' => {
                let value = value.next_multiple_of(4);
                value + 4 + number_at(fields, value)? as usize + 1
            }
            b'g' => value + 1 + usize::from(*fields.get(value)?) + 1,
            b'u' => value.next_multiple_of(4) + 4,
            _ => return None,
        };
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let length = number_at(bytes, at)? as usize;
    let text = bytes.get(at + 4..)?.get(..length)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

impl Value {
    fn signature(&self) -> &'static str {
        match self {
            Self::Bool(_) => "b",
            Self::Text(_) => "s",
            Self::Number(_) => "t",
            Self::Pids(_) => "au",
            Self::Properties(_) => "a(sv)",
            Self::NoUnits => "a(sa(sv))",
        }
    }
}

/// Alignment is relative to the start of the message, so the body is encoded separately and placed at a multiple of eight.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.0.push(signature.len() as u8);
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }

    /// The length does not count the gap before the first element.
    fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.0.len() - 4;
        self.align(alignment);
        let start = self.0.len();
        elements(self);
        let length = (self.0.len() - start) as u32;
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Bool(value) => self.number(u32::from(*value)),
            Value::Text(text) => self.text(text),
            Value::Number(number) => {
                self.align(8);
                self.0.extend(number.to_le_bytes());
            }
            Value::Pids(pids) => self.array(4, |array| pids.iter().for_each(|&pid| array.number(pid))),
            Value::Properties(properties) => self.array(8, |array| {
                for (name, value) in properties {
                    array.align(8);
                    array.text(name);
                    array.signature(value.signature());
                    array.value(value);
                }
            }),
            Value::NoUnits => self.array(8, |_| {}),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An error as systemd sends it: reply serial, name, signature, and a text in the body.
    fn refusal(name: &str, text: &str) -> Vec<u8> {
        let mut body = Writer::default();
        body.text(text);
        let mut message = Writer::default();
        message.0.extend([b'l', ERROR, 1, 1]);
        message.number(body.0.len() as u32);
        message.number(7);
        message.array(8, |fields| {
            fields.0.push(5);
            fields.signature("u");
            fields.number(1);
            fields.align(8);
            fields.0.push(8);
            fields.signature("g");
            fields.signature("s");
            fields.align(8);
            fields.0.push(4);
            fields.signature("s");
            fields.text(name);
        });
        message.align(8);
        message.0.extend(body.0);
        message.0
    }

    #[test]
    fn a_call_is_laid_out_as_the_specification_says() {
        let message = call("Attach", &[Value::Text("u".to_owned()), Value::Pids(vec![7])]);
        let fields = number_at(&message, 12).unwrap() as usize;
        assert_eq!(&message[..4], &[b'l', 1, 0, 1]);
        assert_eq!(number_at(&message, 4), Some(16), "the body: a text, a gap, an array of one number");
        let body = PREFIX + fields.next_multiple_of(8);
        assert_eq!(&message[body..], &[1, 0, 0, 0, b'u', 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(&message[PREFIX..PREFIX + 4], &[1, 1, b'o', 0]);
        assert_eq!(rest_of(&message[..PREFIX].try_into().unwrap()), Some(message.len() - PREFIX));
    }

    #[test]
    fn properties_begin_at_multiples_of_eight() {
        let mut body = Writer::default();
        body.value(&Value::Properties(vec![("D", Value::Bool(true)), ("P", Value::Number(2))]));
        let expected = [
            &[40, 0, 0, 0, 0, 0, 0, 0][..],
            &[1, 0, 0, 0, b'D', 0, 1, b'b', 0, 0, 0, 0, 1, 0, 0, 0],
            &[1, 0, 0, 0, b'P', 0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(body.0, expected.concat());
    }

    #[test]
    fn a_refusal_is_told_with_its_name_and_text() {
        let name = "org.freedesktop.systemd1.UnitExists";
        let message = refusal(name, "Unit x.scope already exists.");
        assert_eq!(rest_of(&message[..PREFIX].try_into().unwrap()), Some(message.len() - PREFIX));
        let expected =
            Reply::Refused { name: name.to_owned(), message: "Unit x.scope already exists.".to_owned() };
        assert_eq!(reply(&message), expected);
    }

    #[test]
    fn an_answer_without_end_is_none() {
        let mut prefix = [0; PREFIX];
        prefix[0] = b'l';
        prefix[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(rest_of(&prefix), None);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(mut bytes in prop::collection::vec(any::<u8>(), 16..120), kind in 0u8..5) {
            bytes[1] = kind;
            let _ = reply(&bytes);
            let mut cut = refusal("a.b", "text");
            cut.truncate(bytes.len());
            let _ = reply(&cut);
        }
    }
}
