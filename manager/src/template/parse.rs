//! Quantities in files and options: sizes (`64Mi`), spans of time (`40s`) and CPUs (`500m`).

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// Bytes from `64Mi`, `2Gi`, `10M`, `512`.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("K", 1_000),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    scaled(text, &UNITS)
        .map(|bytes| bytes as u64)
        .ok_or_else(|| format!("\"{text}\" is not a size: write for example 64Mi or 2Gi"))
}

/// A span of time from `500ms`, `40s`, `5m`, `2h`, `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [
        ("ms", 1),
        ("s", 1_000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ];
    scaled(text, &UNITS)
        .map(|ms| Duration::from_millis(ms as u64))
        .ok_or_else(|| {
            format!("\"{text}\" is not a duration: write for example 500ms, 40s, 5m or 2h")
        })
}

/// Thousandths of a CPU from `1`, `0.5`, `500m`.
pub fn cpu(text: &str) -> Result<u64, String> {
    scaled(text, &[("m", 1), ("", 1_000)])
        .map(|millis| millis.round() as u64)
        .filter(|millis| *millis > 0)
        .ok_or_else(|| {
            format!("\"{text}\" is not a number of CPUs: write for example 1, 0.5 or 500m")
        })
}

/// A number and one of the units, the first that fits; None where it is anything else.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)))?;
    // Digits and one point only: parse::<f64>() also takes "inf", "1e9" and signs.
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    // 2^63 keeps every later sum of two within u64.
    let value = number.parse::<f64>().ok()? * unit as f64;
    (value < 9.2e18).then_some(value)
}

/// Defines a quantity that reads from a string or a plain number and writes as a string.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $parse:path, $expects:literal, $number:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let show: fn(&$inner) -> String = $show;
                serializer.serialize_str(&show(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expects)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        $parse(text).map($name).map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_f64(number as f64)
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$name, E> {
                        let text: fn(f64) -> String = $number;
                        self.visit_str(&text(number))
                    }
                }
                deserializer.deserialize_any(Reader)
            }
        }
    };
}

quantity!(
    /// Bytes.
    Size, u64, size, "a size such as 64Mi", |n| format!("{n}"), |bytes| bytes.to_string()
);
quantity!(
    /// Thousandths of a CPU.
    Cpu, u64, cpu, "a number of CPUs such as 0.5", |n| format!("{n}"), |millis| format!("{millis}m")
);
quantity!(
    /// A span of time; a plain number is seconds.
    Span, Duration, duration, "a duration such as 40s", |n| format!("{n}s"),
    |span| format!("{}ms", span.as_millis())
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_written() {
        assert_eq!(size("64Mi"), Ok(64 << 20));
        assert_eq!(size("1.5Gi"), Ok(3 << 29));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(cpu("0.5"), Ok(500));
        assert_eq!(cpu("250m"), Ok(250));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in [
            "",
            "Mi",
            "-1",
            "1e9",
            "inf",
            "1..2",
            "12 parsecs",
            "99999999999Ti",
            "NaN",
        ] {
            assert!(size(text).is_err(), "{text}");
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("40").is_err(), "a duration needs a unit");
        assert!(cpu("0").is_err());
    }

    #[test]
    fn files_may_give_numbers() {
        let read = |text: &str| serde_yaml_ng::from_str::<Size>(text).map(|size| size.0);
        assert_eq!(read("1048576").unwrap(), 1 << 20);
        assert!(read("-5").is_err());
        assert!(
            read("[1]")
                .unwrap_err()
                .to_string()
                .contains("a size such as 64Mi")
        );
        assert_eq!(
            serde_json::from_str::<Span>("300").unwrap().0,
            Duration::from_secs(300)
        );
    }
}
