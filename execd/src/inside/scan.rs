//! Looking for answers in a task's image, as the guest's root in a sandbox of it: what the image
//! makes of its paths leads nowhere that a rollout could not go.

use std::path::Path;

use innkeeper_leaks::{Ground, Question, scan};

use super::Answer;

pub(super) fn run(question: &Question) -> Answer {
    match Ground::open(Path::new("/")) {
        Ok(ground) => Answer::Scanned(Box::new(scan(&ground, question))),
        Err(error) => Answer::Failed {
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("/ cannot be opened: {error}"),
        },
    }
}
