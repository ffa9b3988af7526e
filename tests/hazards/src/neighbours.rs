//! Our own faults, each named after the recorded one whose neighbour it is.

mod attributes;
mod contents;
mod objects;
mod processes;
mod settings;
mod shapes;

use crate::case::{Case, Reach};

/// A fault that a guest can bring about, or must not be able to.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// The recorded fault, and what is different here.
    id: &'static str,
    script: &'static str,
    check: &'static str,
    reach: Reach,
}

impl Neighbour {
    const fn open(id: &'static str, script: &'static str, check: &'static str) -> Self {
        Self {
            id,
            script,
            check,
            reach: Reach::Open,
        }
    }

    /// The check succeeds where the attempt did, and so must fail.
    const fn forbidden(id: &'static str, script: &'static str, check: &'static str) -> Self {
        Self {
            id,
            script,
            check,
            reach: Reach::Forbidden,
        }
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    let themes = [
        attributes::CASES,
        contents::CASES,
        shapes::CASES,
        processes::CASES,
        objects::CASES,
        settings::CASES,
    ];
    let case = |one: &Neighbour| Case {
        id: one.id.to_owned(),
        script: one.script.to_owned(),
        check: one.check.to_owned(),
        reach: if one.check.is_empty() {
            Reach::Unseen
        } else {
            one.reach
        },
    };
    themes.into_iter().flatten().map(case).collect()
}
