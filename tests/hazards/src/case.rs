//! One fault: how it is brought about, and how one sees that it was.

use std::path::Path;

use serde::Deserialize;

/// A fault as it was recorded, or a neighbour of one.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name among all faults.
    pub id: String,
    /// Lines for bash, run as root in the sandbox.
    pub script: String,
    /// Lines for bash that succeed when the state was reached.
    pub check: String,
    /// Whether it can be reached.
    pub reach: Reach,
}

/// Whether a guest can bring a state about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It can, and the check says so.
    Open,
    /// It needs a right that no guest has: the check must fail.
    Forbidden,
    /// There is no check.
    Unseen,
}

/// A fault as its file has it; what people read is left where it is.
#[derive(Debug, Deserialize)]
struct Recorded {
    id: String,
    kind: String,
    script: String,
    check: String,
}

impl Case {
    /// The recorded faults of some kinds: A files, B processes and kernel objects, C calls, D
    /// life cycle, E grading.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub fn recorded(folder: &Path, kinds: &[&str]) -> Result<Vec<Self>, String> {
        let file = folder.join("cases.json");
        let shown = file.display();
        let text = std::fs::read(&file).map_err(|error| format!("{shown}: {error}"))?;
        let all: Vec<Recorded> =
            serde_json::from_slice(&text).map_err(|error| format!("{shown}: {error}"))?;
        let wanted = |case: &Recorded| kinds.contains(&case.kind.as_str());
        Ok(all.into_iter().filter(wanted).map(Self::from).collect())
    }
}

impl From<Recorded> for Case {
    fn from(recorded: Recorded) -> Self {
        let reach = match recorded.id.as_str() {
            // They mount or make namespaces.
            "A24" | "A26" | "B13" => Reach::Forbidden,
            _ if recorded.check.is_empty() => Reach::Unseen,
            _ => Reach::Open,
        };
        Self {
            id: recorded.id,
            script: recorded.script,
            check: recorded.check,
            reach,
        }
    }
}
