//! Time limits.

use std::time::Duration;

use super::RequestError;

/// The longest time limit: a week.
const LONGEST_MS: u64 = 7 * 24 * 3600 * 1000;

/// Reads a time limit: milliseconds, or a number with `ms`, `s`, `m` or `h`. 0 and `none` are no limit.
pub fn parse_timeout(given: &str) -> Result<Option<Duration>, RequestError> {
    let wrong = || RequestError::Timeout { given: given.chars().take(64).collect() };
    if given == "none" {
        return Ok(None);
    }
    let digits = given.find(|c: char| !c.is_ascii_digit()).unwrap_or(given.len());
    let (number, unit) = given.split_at(digits);
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = number.checked_mul(factor).filter(|millis| *millis <= LONGEST_MS).ok_or_else(wrong)?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_in_milliseconds() {
        let ms = |given| parse_timeout(given).map(|limit| limit.map(|limit| limit.as_millis()));
        assert_eq!(ms("1500"), Ok(Some(1500)));
        assert_eq!(ms("250ms"), Ok(Some(250)));
        assert_eq!(ms("5s"), Ok(Some(5_000)));
        assert_eq!(ms("2m"), Ok(Some(120_000)));
        assert_eq!(ms("1h"), Ok(Some(3_600_000)));
        assert_eq!(ms("0"), Ok(None));
        assert_eq!(ms("none"), Ok(None));
    }

    #[test]
    fn what_is_no_time_limit_is_refused() {
        for wrong in ["", "s", "-1", "1.5s", "5 s", "5d", "99999999999999999999", "1000h", "+5", "0x10", "½s"]
        {
            assert!(matches!(parse_timeout(wrong), Err(RequestError::Timeout { .. })), "{wrong}");
        }
    }
}
