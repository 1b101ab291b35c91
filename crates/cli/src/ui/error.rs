//! Showing what failed.

use std::io::{self, Write};

use agentiso_core::Failure;
use serde_json::{Value, json};

use super::Stream;
use super::style::harmless;
use super::verbs::in_verbs;

/// Shows a failure: to a person on `err`, or with `as_json` to a program on `out`.
pub fn report(failure: &Failure, as_json: bool, out: &mut Stream, err: &mut Stream) -> io::Result<()> {
    if as_json {
        writeln!(out, "{}", json!({ "error": error_object(failure) }))?;
        return out.flush();
    }
    let paint = err.paint();
    let label = paint.bad(&format!("error[{}]", failure.code()));
    writeln!(err, "{label}: {}", harmless(&in_verbs(failure.message())))?;
    if let Some(remedy) = failure.remedy() {
        writeln!(err, "  {} {}", paint.good("try:"), harmless(&in_verbs(remedy)))?;
    }
    err.flush()
}

/// A failure as programs read it.
pub fn error_object(failure: &Failure) -> Value {
    let (message, remedy) = (in_verbs(failure.message()), failure.remedy().map(in_verbs));
    json!({ "code": failure.code(), "message": message, "remedy": remedy })
}

#[cfg(test)]
mod tests {
    use agentiso_core::Code;

    use super::*;

    fn shown(failure: &Failure, as_json: bool, colour: bool) -> (String, String) {
        let (mut out, stdout) = Stream::captured(false, false);
        let (mut err, stderr) = Stream::captured(colour, colour);
        report(failure, as_json, &mut out, &mut err).unwrap();
        (stdout.text(), stderr.text())
    }

    fn no_image() -> Failure {
        Failure::new(Code::ImageNotFound, "there is no image \"debain\"")
            .with_remedy("did you mean \"debian\"?")
    }

    #[test]
    fn a_person_reads_code_message_and_remedy_on_standard_error() {
        let (out, err) = shown(&no_image(), false, false);
        assert_eq!(out, "");
        assert_eq!(
            err,
            "error[image_not_found]: there is no image \"debain\"\n  try: did you mean \"debian\"?\n"
        );
        assert!(shown(&no_image(), false, true).1.starts_with("\x1b["));
    }

    #[test]
    fn a_program_reads_one_object_on_standard_output() {
        let (out, err) = shown(&no_image(), true, false);
        assert_eq!(err, "");
        let object: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(object["error"]["code"], "image_not_found");
        assert_eq!(object["error"]["remedy"], "did you mean \"debian\"?");
        let (out, _) = shown(&Failure::new(Code::Io, "x"), true, false);
        assert!(serde_json::from_str::<serde_json::Value>(&out).unwrap()["error"]["remedy"].is_null());
    }

    #[test]
    fn console_lines_in_a_message_cannot_drive_the_terminal() {
        let (_, err) = shown(&Failure::new(Code::BootFailed, "panic \x1b[2J"), false, false);
        assert_eq!(err, "error[boot_failed]: panic \\u{1b}[2J\n");
    }
}
