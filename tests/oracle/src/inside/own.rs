//! What the observing process finds about itself beyond its own /proc.

use crate::text::{error, escaped};
use crate::{Record, sys};

pub(super) fn observe(record: &mut Record) {
    let mut put = |field: &str, value: String| record.put("own", field, value);
    let arguments: Vec<_> = std::env::args_os()
        .map(|word| escaped(word.as_encoded_bytes()))
        .collect();
    put("arguments", arguments.join(" "));
    let mut environment: Vec<_> = std::env::vars_os()
        .map(|(name, value)| {
            format!(
                "{}={}",
                escaped(name.as_encoded_bytes()),
                escaped(value.as_encoded_bytes())
            )
        })
        .collect();
    environment.sort();
    put("environment", environment.join(" "));
    let folder = std::env::current_dir();
    put(
        "folder",
        folder.map_or_else(
            |e| e.to_string(),
            |path| escaped(path.as_os_str().as_encoded_bytes()),
        ),
    );
    for (name, call) in sys::SELF {
        put(name, call().map_or_else(error, |value| value.to_string()));
    }
}
