//! Sizes and times as people say them.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// Formats a number of bytes with the largest unit that leaves a whole part: `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a duration with about three digits: `38 ms`, `1.2 s`, `2 min 5 s`.
pub fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..59_950_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => {
            let seconds = time.as_secs_f64().round() as u64;
            match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, minutes, _) => format!("{hours} h {minutes} min"),
            }
        }
    }
}

/// How long ago a time is, as the daemon writes times; a dash for what is no time.
pub fn age_since(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => age(SystemTime::from(time).elapsed().unwrap_or_default()),
        Err(_) => "-".to_owned(),
    }
}

/// A number of virtual processors: `1 vCPU`, `2 vCPUs`.
pub fn vcpus(count: u32) -> String {
    format!("{count} vCPU{}", if count == 1 { "" } else { "s" })
}

/// A number of things: `1 file`, `2 files`, `1 directory`, `0 directories`.
pub fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    match (count, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {thing}s"),
    }
}

/// A duration in milliseconds, as programs read it.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Formats an age with its largest unit: `12 s`, `3 min`, `5 h`, `9 d`.
pub fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_not_several() {
        assert_eq!([1, 2].map(vcpus), ["1 vCPU", "2 vCPUs"]);
    }

    #[test]
    fn one_thing_is_not_several() {
        let words = [
            counted(1u64, "file"),
            counted(0u64, "file"),
            counted(1u64, "directory"),
            counted(2u64, "directory"),
        ];
        assert_eq!(words, ["1 file", "0 files", "1 directory", "2 directories"]);
    }

    #[test]
    fn what_is_no_time_has_no_age() {
        assert!(age_since("2020-01-01T00:00:00Z").ends_with(" d"));
        assert_eq!(age_since("yesterday"), "-");
    }

    #[test]
    fn ages_are_rounded_down_to_one_unit() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (7_300, "2 h"), (200_000, "2 d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn sizes_use_the_unit_that_reads_best() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (297 << 20, "297.0 MiB"),
            (10 << 30, "10.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn durations_use_the_unit_that_reads_best() {
        for (micros, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (2_400, "2.4 ms"),
            (38_900, "38 ms"),
            (999_999, "999 ms"),
            (1_240_000, "1.2 s"),
            (59_949_999, "59.9 s"),
            (59_960_000, "1 min 0 s"),
            (125_000_000, "2 min 5 s"),
            (7_260_000_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(Duration::from_micros(micros)), text);
        }
    }
}
