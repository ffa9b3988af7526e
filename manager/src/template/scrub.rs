//! `image import --scrub`: one more step at the end of each prepare, which removes answers that
//! the image holds. It runs the image's own git, as the guest and in the sandbox of the prepare;
//! whether it did what it should is not its own word, but seen by the look that follows.

use innkeeper_proto::v1;

/// A script for any POSIX shell. Its text is part of the template key, as every step is.
const SCRIPT: &str = include_str!("scrub/scrub.sh");

/// The step for a template.
pub(super) fn step(spec: &v1::TemplateSpec) -> v1::Argv {
    let words = ["/bin/sh", "-c", SCRIPT, "scrub", &spec.base_commit];
    v1::Argv {
        words: words.map(str::to_owned).to_vec(),
    }
}
