//! The options of `serve`, from the command line and the configuration file.

use std::path::PathBuf;

use serde::Deserialize;

use super::Error;
use crate::paths;
use crate::template::form::{self, Defaults};
use crate::template::parse::Span;

/// Options of `serve`. A configuration file has the same names; what the command line gives
/// goes before it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// A file with more options.
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// local or kubernetes.
    pub provider: Option<String>,
    /// Kubernetes: where the pods go.
    pub namespace: Option<String>,
    /// Addresses; none: the local socket.
    pub listen: Vec<String>,
    /// The state directory.
    pub state_dir: Option<PathBuf>,
    /// `TOKEN TENANT` lines.
    pub token_file: Option<PathBuf>,
    /// An address for Docker clients.
    pub docker: Option<String>,
    /// What Docker clients may bind.
    pub docker_bind_root: Option<PathBuf>,
    /// An address for HTTP.
    pub http: Option<String>,
    /// An address for Prometheus.
    pub metrics: Option<String>,
    /// A policy file.
    pub policy: Option<PathBuf>,
    /// How sandboxes are put back.
    pub strategy: Option<String>,
    /// With whose rights.
    pub rights: Option<String>,
    /// Kubernetes: how pods are laid out.
    pub layout: Option<String>,
    /// After how long without a manager execd ends itself. In the file only.
    pub orphan_ttl: Option<Span>,
}

impl Options {
    /// The state directory that these options mean.
    pub fn state_dir(&self) -> PathBuf {
        self.state_dir
            .clone()
            .unwrap_or_else(paths::default_state_dir)
    }

    /// Fills in from the configuration file what the command line left out.
    pub(super) fn with_config(self) -> Result<Self, Error> {
        let Some(path) = &self.config else {
            return Ok(self);
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Usage(format!("config {shown} cannot be read: {error}")))?;
        let file: Self = if text.trim().is_empty() {
            Self::default()
        } else {
            serde_yaml_ng::from_str(&text)
                .map_err(|error| Error::Usage(format!("config {shown} is not valid: {error}")))?
        };
        Ok(Self {
            config: None,
            provider: self.provider.or(file.provider),
            namespace: self.namespace.or(file.namespace),
            listen: if self.listen.is_empty() {
                file.listen
            } else {
                self.listen
            },
            state_dir: self.state_dir.or(file.state_dir),
            token_file: self.token_file.or(file.token_file),
            docker: self.docker.or(file.docker),
            docker_bind_root: self.docker_bind_root.or(file.docker_bind_root),
            http: self.http.or(file.http),
            metrics: self.metrics.or(file.metrics),
            policy: self.policy.or(file.policy),
            strategy: self.strategy.or(file.strategy),
            rights: self.rights.or(file.rights),
            layout: self.layout.or(file.layout),
            orphan_ttl: self.orphan_ttl.or(file.orphan_ttl),
        })
    }

    /// What goes where a template says `auto`.
    pub(super) fn defaults(&self) -> Result<Defaults, Error> {
        fn word<T: std::str::FromStr<Err = String> + Default>(
            option: &str,
            value: Option<&str>,
        ) -> Result<T, Error> {
            value.map_or_else(
                || Ok(T::default()),
                |value| {
                    let wrong = |error| Error::Usage(format!("{option} {error}"));
                    value.parse().map_err(wrong)
                },
            )
        }
        let defaults = Defaults {
            strategy: word("--strategy", self.strategy.as_deref())?,
            rights: word("--rights", self.rights.as_deref())?,
        };
        // Whether the two go together at all; what this machine can do of it is asked later.
        form::choose(defaults.strategy, defaults.rights, |_| None)
            .map_err(|error| Error::Usage(error.to_string()))?;
        Ok(defaults)
    }

    /// Refuses what is wrong and what this version does not have.
    pub(super) fn check(&self) -> Result<(), Error> {
        let local = Choice {
            option: "provider",
            here: &["local"],
            later: &["kubernetes"],
        };
        local.check(self.provider.as_deref())?;
        self.defaults()?;
        let absent = [
            ("--namespace", self.namespace.is_some()),
            ("--docker", self.docker.is_some()),
            ("--docker-bind-root", self.docker_bind_root.is_some()),
            ("--http", self.http.is_some()),
            ("--policy", self.policy.is_some()),
            ("--layout", self.layout.is_some()),
        ];
        match absent.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(not_yet(option)),
            None => Ok(()),
        }
    }
}

/// An option with a fixed set of words.
struct Choice {
    option: &'static str,
    here: &'static [&'static str],
    later: &'static [&'static str],
}

impl Choice {
    fn check(&self, value: Option<&str>) -> Result<(), Error> {
        let Self {
            option,
            here,
            later,
        } = self;
        match value {
            None => Ok(()),
            Some(value) if here.contains(&value) => Ok(()),
            Some(value) if later.contains(&value) => Err(not_yet(&format!("--{option} {value}"))),
            Some(value) => Err(Error::Usage(format!(
                "--{option} {value}: write {}",
                here.join(" or ")
            ))),
        }
    }
}

fn not_yet(what: &str) -> Error {
    Error::Usage(format!(
        "this version does not have {what} yet: leave it out"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(text: &str, options: Options) -> Result<Options, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        Options {
            config: Some(path),
            ..options
        }
        .with_config()
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let given = Options {
            metrics: Some("a:1".into()),
            ..Options::default()
        };
        let text = "metrics: b:2\nstate_dir: /x\nlisten: [unix:///y]\norphan_ttl: 15m\n";
        let options = from_file(text, given).unwrap();
        assert_eq!(options.metrics.as_deref(), Some("a:1"));
        assert_eq!(options.state_dir(), PathBuf::from("/x"));
        assert_eq!(options.listen, ["unix:///y"]);
        assert_eq!(options.orphan_ttl.unwrap().0.as_secs(), 900);
    }

    #[test]
    fn what_is_wrong_or_absent_is_named() {
        let unknown = from_file("listn: []", Options::default()).unwrap_err();
        assert!(unknown.is_usage() && unknown.to_string().contains("listn"));
        for (options, word) in [
            (
                Options {
                    http: Some("x".into()),
                    ..Options::default()
                },
                "--http",
            ),
            (
                Options {
                    provider: Some("kubernetes".into()),
                    ..Options::default()
                },
                "kubernetes",
            ),
            (
                Options {
                    strategy: Some("fast".into()),
                    ..Options::default()
                },
                "layered",
            ),
        ] {
            let error = options.check().unwrap_err();
            assert!(
                error.is_usage() && error.to_string().contains(word),
                "{error}"
            );
        }
    }
}
