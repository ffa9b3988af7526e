//! What was observed: subjects, each with fields, all text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// Fields of one subject, by name. What could not be read is there too, as `error ENAME`.
pub type Subject = BTreeMap<String, String>;

/// One observation of one sandbox, from one side.
///
/// A subject is named by its kind and what tells it from others of its kind, such as
/// `file /etc/passwd`, `process /usr/sbin/cron #0`, `mount /proc` or `host`. Bytes that are not
/// printable stand as `\xNN`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    subjects: BTreeMap<String, Subject>,
    /// Number of subjects, written last: a record that was cut off does not parse as a whole one.
    count: usize,
}

/// Why a text is no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The text is no JSON of this shape, or was cut off.
    #[error("this is no record of a sandbox")]
    Parse(#[source] serde_json::Error),
    /// Another version of the program wrote it.
    #[error("the record has version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// It does not hold what it says.
    #[error("the record holds {holds} subjects and says {says}")]
    Count {
        /// Subjects found.
        holds: usize,
        /// Subjects announced.
        says: usize,
    },
}

const VERSION: u32 = 1;

impl Record {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            version: VERSION,
            ..Self::default()
        }
    }

    /// Adds a field; one that is there already is a mistake of the observer and kept visible.
    pub fn put(&mut self, subject: &str, field: &str, value: impl Into<String>) {
        let fields = match self.subjects.get_mut(subject) {
            Some(fields) => fields,
            None => self.subjects.entry(subject.to_owned()).or_default(),
        };
        if let Some(before) = fields.insert(field.to_owned(), value.into()) {
            fields.insert(format!("{field} (seen twice)"), before);
        }
    }

    /// Sets a field, whether or not it is there.
    pub(crate) fn set(&mut self, subject: &str, field: &str, value: impl Into<String>) {
        let fields = self.subjects.entry(subject.to_owned()).or_default();
        fields.insert(field.to_owned(), value.into());
    }

    /// Takes over all subjects of another record.
    pub(crate) fn take(&mut self, other: Self) {
        for (subject, fields) in other.subjects {
            for (field, value) in fields {
                self.put(&subject, &field, value);
            }
        }
    }

    /// Subjects by name.
    pub fn subjects(&self) -> &BTreeMap<String, Subject> {
        &self.subjects
    }

    /// One field.
    pub fn get(&self, subject: &str, field: &str) -> Option<&str> {
        Some(self.subjects.get(subject)?.get(field)?.as_str())
    }

    /// Writes it as one line of JSON.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let whole = Self {
            count: self.subjects.len(),
            ..self.clone()
        };
        serde_json::to_writer(&mut *out, &whole)?;
        out.write_all(b"\n")
    }

    /// Reads what [`Record::write`] wrote.
    ///
    /// # Errors
    /// When it is not whole, or of another version.
    pub fn read(text: &[u8]) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_slice(text).map_err(RecordError::Parse)?;
        if record.version != VERSION {
            return Err(RecordError::Version(record.version));
        }
        let (holds, says) = (record.subjects.len(), record.count);
        if holds != says {
            return Err(RecordError::Count { holds, says });
        }
        Ok(Self { count: 0, ..record })
    }
}
