//! `run_instance.log`: what was done for one instance, line by line, as the harness writes it.

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use innkeeper_grading::apply::{LogLevel, log_line};

/// The log of one grading, kept until it is written whole.
#[derive(Debug, Default)]
pub(super) struct Account {
    text: String,
}

impl Account {
    /// Adds a line.
    pub(super) fn info(&mut self, line: impl AsRef<str>) {
        self.add(LogLevel::Info, line.as_ref());
    }

    /// Adds a line about a failure.
    pub(super) fn error(&mut self, line: impl AsRef<str>) {
        self.add(LogLevel::Error, line.as_ref());
    }

    /// All of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn add(&mut self, level: LogLevel, line: &str) {
        let now = DateTime::<Utc>::from(SystemTime::now()).format("%Y-%m-%d %H:%M:%S,%3f");
        self.text.push_str(&log_line(&now.to_string(), level, line));
    }
}

/// The time now as RFC 3339 in UTC, for records.
pub(super) fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now())
        .format("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}
