//! The verification. Everything that is not proven equal is tainted: what is missing, empty, default,
//! of another format, left over, failed or late.

use std::collections::BTreeMap;
use std::fmt;

use super::{Baseline, FORMAT, Observation, digests};
use crate::components::{Component, combine};
use crate::difference::Difference;
use crate::digest::Digest;
use crate::files::Depth;

/// Differences that a verdict names for each component.
pub const DIFFERENCES: usize = 20;

/// What became of a sandbox.
#[derive(Debug, Clone)]
#[must_use = "a tainted sandbox has to be destroyed"]
pub enum Verdict {
    /// Proven equal to its baseline.
    Clean(Clean),
    /// Anything else: to be destroyed.
    Tainted(Tainted),
}

/// The proof that a sandbox equals its baseline. Only [`verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clean {
    depth: Depth,
    digests: BTreeMap<Component, Digest>,
}

impl Clean {
    /// How thoroughly the files were checked.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The digest of every component.
    pub fn digests(&self) -> &BTreeMap<Component, Digest> {
        &self.digests
    }

    /// One digest over all components: equal to [`Baseline::digest`].
    pub fn digest(&self) -> Digest {
        combine(&self.digests)
    }
}

/// A sandbox that could not be proven equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tainted {
    /// The first reason.
    pub cause: Cause,
    /// What differs, as far as it is known.
    pub differences: Vec<Difference>,
    /// The digests that were obtained.
    pub digests: BTreeMap<Component, Digest>,
}

/// Why a sandbox is tainted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The baseline itself proves nothing.
    Baseline(String),
    /// The sandbox is of another template.
    Template,
    /// Other lower layers are mounted than were recorded.
    Lowers,
    /// A component was not observed, with the reason.
    Unobserved(Component, String),
    /// The files were checked less thoroughly than demanded.
    Depth {
        /// Demanded.
        wanted: Depth,
        /// Done.
        done: Depth,
    },
    /// A component differs.
    Differs(Component),
    /// A step of the reset failed.
    Step(&'static str, String),
    /// A step of the reset took too long.
    Late(&'static str),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Baseline(reason) => write!(f, "the baseline proves nothing: {reason}"),
            Cause::Template => f.write_str("the sandbox was built as another template"),
            Cause::Lowers => f.write_str("other layers are mounted than the baseline recorded"),
            Cause::Unobserved(component, reason) => {
                write!(f, "{component} could not be observed: {reason}")
            }
            Cause::Depth { wanted, done } => {
                write!(
                    f,
                    "files were checked by {}, not by {}",
                    done.name(),
                    wanted.name()
                )
            }
            Cause::Differs(component) => write!(f, "{component} differ from the baseline"),
            Cause::Step(step, reason) => write!(f, "{step} failed: {reason}"),
            Cause::Late(step) => write!(f, "{step} took longer than it may"),
        }
    }
}

impl Tainted {
    /// Tainted for a reason that has no observation behind it.
    pub fn because(cause: Cause) -> Self {
        Tainted {
            cause,
            differences: Vec::new(),
            digests: BTreeMap::new(),
        }
    }
}

impl Verdict {
    /// True for the proof.
    pub fn is_clean(&self) -> bool {
        matches!(self, Verdict::Clean(_))
    }
}

/// Compares an observation with the baseline. `depth` is the least depth at which the files must have
/// been checked; a more thorough check is accepted and named in the proof.
pub fn verify(baseline: &Baseline, observation: &Observation, depth: Depth) -> Verdict {
    let mut now = digests(&observation.surroundings.facts);
    if let Some(files) = &observation.files {
        now.insert(Component::Files, files.root());
    }
    let mut differences = Vec::new();
    let mut causes = Vec::new();
    check_baseline(baseline, &mut causes);
    check_origin(baseline, observation, &mut causes, &mut differences);
    for component in Component::ALL {
        check(
            component,
            baseline,
            observation,
            &now,
            &mut causes,
            &mut differences,
        );
    }
    let done = check_files(observation, depth, &mut causes, &mut differences);
    match (causes.into_iter().next(), done) {
        (None, Some(depth)) if differences.is_empty() && now == baseline.components => {
            Verdict::Clean(Clean {
                depth,
                digests: now,
            })
        }
        (cause, _) => Verdict::Tainted(Tainted {
            cause: cause.unwrap_or(Cause::Differs(Component::Files)),
            differences,
            digests: now,
        }),
    }
}

fn check_baseline(baseline: &Baseline, causes: &mut Vec<Cause>) {
    let mut wrong = |reason: String| causes.push(Cause::Baseline(reason));
    if baseline.version != FORMAT {
        wrong(format!(
            "it has format {}, this program compares {FORMAT}",
            baseline.version
        ));
    }
    if baseline.template_key.is_empty() {
        wrong("it names no template".into());
    }
    if baseline.lowers.is_empty() || baseline.lowers.iter().any(String::is_empty) {
        wrong("it names no layers".into());
    }
    for component in Component::ALL {
        let digest = baseline.components.get(&component);
        if digest.is_none_or(Digest::is_zero) {
            wrong(format!("it has no digest of {component}"));
        }
        if component == Component::Files {
            continue;
        }
        match baseline.facts.get(&component) {
            Some(facts) if facts.is_empty() => wrong(format!("it has no facts of {component}")),
            Some(facts) if Some(&facts.digest(component)) == digest => {}
            Some(_) | None => wrong(format!(
                "its facts of {component} do not hash to its digest"
            )),
        }
    }
}

fn check_origin(
    baseline: &Baseline,
    observation: &Observation,
    causes: &mut Vec<Cause>,
    differences: &mut Vec<Difference>,
) {
    let seen = &observation.surroundings;
    let mut differs = |what: &str, baseline: String, now: String| {
        differences.push(Difference {
            component: Component::Files,
            path: Vec::new(),
            what: what.into(),
            baseline: Some(baseline),
            now: Some(now),
        });
    };
    if seen.template_key != baseline.template_key {
        causes.push(Cause::Template);
        differs(
            "template",
            baseline.template_key.clone(),
            seen.template_key.clone(),
        );
    }
    if seen.lowers != baseline.lowers {
        causes.push(Cause::Lowers);
        differs("layers", baseline.lowers.join(" "), seen.lowers.join(" "));
    }
}

fn check(
    component: Component,
    baseline: &Baseline,
    observation: &Observation,
    now: &BTreeMap<Component, Digest>,
    causes: &mut Vec<Cause>,
    differences: &mut Vec<Difference>,
) {
    let seen = &observation.surroundings;
    if let Some(reason) = seen.failed.get(&component) {
        causes.push(Cause::Unobserved(component, reason.clone()));
        return;
    }
    let Some(digest) = now.get(&component).filter(|digest| !digest.is_zero()) else {
        causes.push(Cause::Unobserved(component, "nothing was reported".into()));
        return;
    };
    let facts = seen.facts.get(&component);
    if component == Component::Files && facts.is_some() {
        causes.push(Cause::Unobserved(component, "files are no facts".into()));
    }
    if facts.is_some_and(|facts| facts.is_empty()) {
        causes.push(Cause::Unobserved(component, "an empty report".into()));
    }
    if baseline.components.get(&component) != Some(digest) {
        causes.push(Cause::Differs(component));
        if let (Some(old), Some(new)) = (baseline.facts.get(&component), facts) {
            differences.extend(old.diff(new, component, DIFFERENCES));
        }
    }
}

/// The depth that was done, if the check is good enough and found nothing.
fn check_files(
    observation: &Observation,
    wanted: Depth,
    causes: &mut Vec<Cause>,
    differences: &mut Vec<Difference>,
) -> Option<Depth> {
    // That there is none has been said above.
    let files = observation.files.as_ref()?;
    differences.extend(files.differences().iter().take(DIFFERENCES).cloned());
    let done = files.depth();
    if done < wanted {
        causes.push(Cause::Depth { wanted, done });
        return None;
    }
    if !files.is_equal() {
        causes.push(Cause::Differs(Component::Files));
        return None;
    }
    Some(done)
}
