//! Names of images.

use crate::error::Error;

/// A name as it is stored: in its familiar form and with a tag.
pub(crate) fn stored_form(name: &str) -> Result<String, Error> {
    let refuse = |why| {
        Err(Error::Name {
            name: name.to_owned(),
            why,
        })
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name.len() > 255 {
        return refuse("it is longer than 255 bytes");
    }
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return refuse("it has a space or control character in it");
    }
    if name.contains('@') || name.starts_with("sha256:") {
        return refuse("digests are not given but computed");
    }
    if name.starts_with(['/', ':', '-']) || name.ends_with(['/', ':']) {
        return refuse("a name is REPOSITORY[:TAG]");
    }
    Ok(with_tag(&familiar(name)))
}

/// Without the parts that docker's tools leave out when they show a name.
pub(crate) fn familiar(name: &str) -> String {
    for prefix in [
        "docker.io/library/",
        "index.docker.io/library/",
        "docker.io/",
        "index.docker.io/",
    ] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    name.to_owned()
}

/// Whether two names mean the same image: `task` and `docker.io/library/task:latest` do.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    with_tag(&familiar(one)) == with_tag(&familiar(other))
}

/// What to look up for a name as people give it, best first.
pub(super) fn candidates(name: &str) -> Vec<String> {
    let name = with_tag(&familiar(name));
    // Some tools put `localhost/` before the names of images that were built on the machine.
    vec![name.clone(), format!("localhost/{name}")]
}

fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_tags_and_lose_what_is_implied() {
        assert_eq!(stored_form("task").unwrap(), "task:latest");
        assert_eq!(stored_form("docker.io/library/task:1").unwrap(), "task:1");
        assert_eq!(
            stored_form("localhost:5000/a/b").unwrap(),
            "localhost:5000/a/b:latest"
        );
        for bad in ["", "a b", "a@sha256:00", "sha256:00", "a:", "/a", "-a"] {
            assert!(stored_form(bad).is_err(), "{bad}");
        }
    }
}
