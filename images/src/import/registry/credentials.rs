//! Credentials as `docker login` leaves them: in `config.json`, or with a helper named there.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

use crate::error::Error;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: HashMap<String, Login>,
    creds_store: Option<String>,
    cred_helpers: HashMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Login {
    /// Base 64 of `USER:PASSWORD`.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    registrytoken: Option<String>,
}

/// What a credential helper prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

/// Credentials for a registry; anonymous where there are none.
pub(super) fn find(registry: &str) -> Result<RegistryAuth, Error> {
    let Some(path) = config_path().filter(|path| path.is_file()) else {
        return Ok(RegistryAuth::Anonymous);
    };
    let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let unreadable = |why: String| {
        Error::Unsupported(format!(
            "{} cannot be read ({why}); repair it or sign in again",
            path.display()
        ))
    };
    let config: DockerConfig =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if let Some(helper) = config
        .cred_helpers
        .get(registry)
        .or(config.creds_store.as_ref())
    {
        return ask(helper, registry, &path);
    }
    let login = config
        .auths
        .iter()
        .find(|(key, _)| host_of(key) == host_of(registry));
    let Some((_, login)) = login else {
        return Ok(RegistryAuth::Anonymous);
    };
    if let Some(token) = &login.registrytoken {
        return Ok(RegistryAuth::Bearer(token.clone()));
    }
    if let (Some(user), Some(password)) = (&login.username, &login.password) {
        return Ok(RegistryAuth::Basic(user.clone(), password.clone()));
    }
    let Some(auth) = login.auth.as_deref().filter(|auth| !auth.is_empty()) else {
        return Ok(RegistryAuth::Anonymous);
    };
    let decoded = base64::engine::general_purpose::STANDARD.decode(auth).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded
        .as_deref()
        .and_then(|text| text.trim_end_matches('\0').split_once(':'))
    {
        Some((user, password)) => Ok(RegistryAuth::Basic(user.to_owned(), password.to_owned())),
        None => Err(unreadable(format!(
            "the entry for {registry} is no user and password"
        ))),
    }
}

fn config_path() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()) {
        return Some(Path::new(&folder).join("config.json"));
    }
    let home = std::env::var_os("HOME")?;
    Some(Path::new(&home).join(".docker/config.json"))
}

/// Keys are hosts, or old addresses such as `https://HOST/v1/`.
fn host_of(key: &str) -> &str {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let host = key.split('/').next().unwrap_or(key);
    if host == "docker.io" {
        "index.docker.io"
    } else {
        host
    }
}

/// Asks a credential helper. One that knows nothing of the registry means anonymous.
fn ask(helper: &str, registry: &str, config: &Path) -> Result<RegistryAuth, Error> {
    let program = format!("docker-credential-{helper}");
    let failed = |why: String| {
        Error::Unsupported(format!(
            "{program}, which {} names, failed ({why}); install it or sign in again",
            config.display()
        ))
    };
    let mut command = Command::new(&program);
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(registry.as_bytes())
            .map_err(|error| failed(error.to_string()))?;
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Ok(RegistryAuth::Anonymous);
    }
    let helped: Helped =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(match helped.username.as_str() {
        "<token>" => RegistryAuth::Bearer(helped.secret),
        _ => RegistryAuth::Basic(helped.username, helped.secret),
    })
}
