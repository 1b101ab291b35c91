//! Sizes, times and ports as people write them: `2G`, `512M`, `90s`, `1h30m`, `8080:80`.

/// Multipliers of size suffixes, in bytes. `2G`, `2GB` and `2GiB` mean the same.
const UNITS: [(&str, u64); 4] = [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

/// Multipliers of time suffixes, in seconds.
const TIMES: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// A size of memory in MiB. A number without a unit is in MiB.
pub fn mebibytes(text: &str) -> Result<u32, String> {
    size(text, 20, "MiB", "512M or 2G")
}

/// A size of a disk in GiB. A number without a unit is in GiB.
pub fn gibibytes(text: &str) -> Result<u32, String> {
    size(text, 30, "GiB", "20G or 1T")
}

/// A size in units of `1 << shift` bytes, of which it must be a whole number.
fn size(text: &str, shift: u32, unit: &str, examples: &str) -> Result<u32, String> {
    let wrong = || format!("expected a size such as {examples}");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim().to_ascii_lowercase();
    let letter = suffix.strip_suffix("ib").or(suffix.strip_suffix('b')).unwrap_or(&suffix);
    let scale = match UNITS.iter().find(|(name, _)| *name == letter) {
        Some((_, scale)) => *scale,
        None if suffix.is_empty() => 1 << shift,
        None => return Err(wrong()),
    };
    let bytes = scaled(number, scale).ok_or_else(wrong)?;
    if !bytes.is_multiple_of(1 << shift) {
        return Err(format!("expected a whole number of {unit}, such as {examples}"));
    }
    u32::try_from(bytes >> shift).map_err(|_| "the size is too large".to_owned())
}

/// `number * scale`, exact: `1.5` of a scale of 1024 is 1536, and a result that is not whole is `None`.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.len() > 9 {
        return None;
    }
    let base = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let part = part.checked_mul(scale)?;
    if !part.is_multiple_of(base) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part / base)
}

/// A length of time in seconds, at least one. A number without a unit is in seconds.
pub fn seconds(text: &str) -> Result<u64, String> {
    match seconds_or_zero(text)? {
        0 => Err("expected at least one second".to_owned()),
        seconds => Ok(seconds),
    }
}

/// A length of time in seconds; 0 means never.
pub fn seconds_or_zero(text: &str) -> Result<u64, String> {
    let wrong = || "expected a time such as 90s, 10m, 1h30m or 2d".to_owned();
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(seconds);
    }
    let mut rest = text;
    let mut total = 0u64;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|&at| at > 0).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = unit.to_ascii_lowercase();
        let (_, scale) = TIMES.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        // `1m1h` is more likely a slip than a sum.
        if scale >= last {
            return Err(wrong());
        }
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        (rest, last) = (after, scale);
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

/// A port in a workspace and the port of the host that leads to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PortPair {
    /// Port on 127.0.0.1 of the host; a free one if absent.
    pub host: Option<u16>,
    /// Port in the workspace.
    pub guest: u16,
}

/// `GUEST`, or `HOST:GUEST`.
pub fn ports(text: &str) -> Result<PortPair, String> {
    let port = |text: &str| {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("expected PORT or HOSTPORT:PORT, such as 8080:80")
    };
    match text.split_once(':') {
        Some((host, guest)) => Ok(PortPair { host: Some(port(host)?), guest: port(guest)? }),
        None => Ok(PortPair { host: None, guest: port(text)? }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_mib_unless_it_says_otherwise() {
        for (text, mib) in [
            ("512", 512),
            ("512M", 512),
            ("2G", 2048),
            ("2g", 2048),
            ("2GiB", 2048),
            ("1.5G", 1536),
            ("1TB", 1 << 20),
        ] {
            assert_eq!(mebibytes(text), Ok(mib), "{text}");
        }
        for bad in ["", "G", "-1", "2X", "1.G", ".5G", "100k", "1 2", "99999T", "2Gi b", "0x10"] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn disks_are_in_gib_unless_they_say_otherwise() {
        for (text, gib) in [("20", 20), ("20G", 20), ("1T", 1024), ("2048M", 2), ("0.5T", 512)] {
            assert_eq!(gibibytes(text), Ok(gib), "{text}");
        }
        assert_eq!(gibibytes("1500M"), Err("expected a whole number of GiB, such as 20G or 1T".to_owned()));
        assert!(gibibytes("1.5").is_err());
    }

    #[test]
    fn times_may_have_several_units_from_large_to_small() {
        for (text, secs) in
            [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("1H", 3600)]
        {
            assert_eq!(seconds(text), Ok(secs), "{text}");
        }
        for bad in ["", "0", "0s", "m", "1m1h", "1h1h", "5w", "1.5h", "-1", "1h ", "99999999999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds_or_zero("0"), Ok(0));
    }

    #[test]
    fn a_port_may_name_the_port_of_the_host_before_it() {
        assert_eq!(ports("80"), Ok(PortPair { host: None, guest: 80 }));
        assert_eq!(ports("8080:80"), Ok(PortPair { host: Some(8080), guest: 80 }));
        for bad in ["", ":80", "80:", "0", "70000", "1:2:3", "a"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }
}
