//! A thread of its own that signs and keeps records, so that the engine's turn pays for neither.

use std::collections::HashSet;
use std::path::Path;
use std::sync::mpsc;

use innkeeper_records::{KeyError, Signer};
use serde_json::{Map, Value};

use super::keep::{Folder, KEPT};
use super::{Record, facts};
use crate::state;

/// Why there are no records.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The folder.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The system gave no thread.
    #[error("no thread for records: {0}")]
    Thread(#[source] std::io::Error),
}

type Then = Box<dyn FnOnce(Option<Record>) + Send>;

enum Job {
    Keep {
        lease: String,
        facts: Map<String, Value>,
        then: Then,
    },
    Read {
        lease: String,
        then: Then,
    },
}

/// Signs and keeps records, in the order of asking. Cheap to clone; the thread ends with the last
/// clone, once all that was asked is done.
#[derive(Debug, Clone)]
pub struct Recorder {
    jobs: mpsc::Sender<Job>,
}

impl Recorder {
    /// Opens the keys in the state directory and the folder of records. Answers also which of
    /// these leases have a record.
    ///
    /// # Errors
    /// A key that is damaged is never replaced: see [`Signer::open`].
    pub fn start(
        state_dir: &Path,
        leases: impl Iterator<Item = String>,
    ) -> Result<(Self, HashSet<String>), Error> {
        let signer = Signer::open(state_dir)?;
        let folder = Folder::open(&state_dir.join("records"), KEPT)?;
        let known = leases.filter(|lease| folder.has(lease)).collect();
        let (jobs, queue) = mpsc::channel();
        std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || run(&signer, folder, &queue))
            .map_err(Error::Thread)?;
        Ok((Self { jobs }, known))
    }

    /// Signs and keeps a lease's record, then calls `then` with it, on the recorder's thread.
    /// None there: it could not be signed, and the log says why.
    pub fn keep(
        &self,
        lease: String,
        facts: Map<String, Value>,
        then: impl FnOnce(Option<Record>) + Send + 'static,
    ) {
        let then = Box::new(then);
        self.ask(Job::Keep { lease, facts, then });
    }

    /// Calls `then` with a lease's record, once all that was asked before is done. None there: it
    /// has none, or none any more.
    pub fn read(&self, lease: String, then: impl FnOnce(Option<Record>) + Send + 'static) {
        let then = Box::new(then);
        self.ask(Job::Read { lease, then });
    }

    fn ask(&self, job: Job) {
        if let Err(mpsc::SendError(job)) = self.jobs.send(job) {
            // The thread is gone, which only a panic brings about: nobody waits for ever.
            match job {
                Job::Keep { then, .. } | Job::Read { then, .. } => then(None),
            }
        }
    }
}

fn run(signer: &Signer, mut folder: Folder, queue: &mpsc::Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        match job {
            Job::Keep { lease, facts, then } => then(keep(signer, &mut folder, &lease, facts)),
            Job::Read { lease, then } => then(match folder.read(&lease) {
                Ok(text) => text.map(Record::from),
                Err(error) => {
                    tracing::error!(%lease, %error, "a record cannot be read");
                    None
                }
            }),
        }
    }
}

fn keep(
    signer: &Signer,
    folder: &mut Folder,
    lease: &str,
    mut facts: Map<String, Value>,
) -> Option<Record> {
    facts.insert("made_at".to_owned(), facts::now().into());
    let record = match signer.sign(facts) {
        Ok(record) => Value::from(record).to_string(),
        Err(error) => {
            tracing::error!(%lease, %error, "a record cannot be signed");
            return None;
        }
    };
    if let Err(error) = folder.write(lease, &record) {
        tracing::error!(%lease, %error, "a record is signed and cannot be kept");
    }
    Some(record.into())
}
