//! What a template's values must satisfy, and what of them is not built yet.

use super::{Carry, Error, Network, Ready, Service, Shrink, Template, Upper};

/// What a sandbox needs of its memory limit beside a memory upper.
const BESIDE_UPPER: u64 = 256 << 20;

/// The most that a slot is used again: uses run from 0 to 8.
const MOST_REUSES: u32 = 8;

/// Checks everything that needs no image.
pub(super) fn check(template: &Template) -> Result<(), Error> {
    paths(template)?;
    commands(template)?;
    limits(template)?;
    carried(template)?;
    offered(template)
}

/// A pod whose root is an image can serve no other.
fn carried(template: &Template) -> Result<(), Error> {
    match (template.form().carry(), template.supply.carry) {
        (Carry::Own, Some(Carry::Any | Carry::Listed)) => wrong(format!(
            "supply.carry must be own with strategy {}",
            template.strategy.as_str()
        )),
        (Carry::Own | Carry::Any | Carry::Listed, _) => Ok(()),
    }
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, Error> {
    Err(Error::Value(sentence.into()))
}

fn absolute(field: &str, path: Option<&str>) -> Result<(), Error> {
    match path {
        Some(path) if !path.starts_with('/') => {
            wrong(format!("{field} \"{path}\" must be an absolute path"))
        }
        Some(_) | None => Ok(()),
    }
}

fn paths(template: &Template) -> Result<(), Error> {
    absolute("workdir", template.workdir.as_deref())?;
    for path in &template.restore {
        absolute("restore", Some(path))?;
    }
    if let Some(commit) = &template.base_commit {
        let hex = commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        if !hex || commit.len() > 64 {
            return wrong(format!("base_commit \"{commit}\" must be a commit's hash"));
        }
    }
    environment("env", template.env.iter())
}

fn environment<'a>(
    field: &str,
    variables: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), Error> {
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return wrong(format!("{field}: \"{name}\" cannot be a variable"));
        }
    }
    Ok(())
}

fn command(field: &str, argv: &[String]) -> Result<(), Error> {
    match argv.first() {
        None => wrong(format!("{field} must name a program")),
        Some(program) if program.is_empty() => wrong(format!("{field} must name a program")),
        Some(_) if argv.iter().any(|word| word.contains('\0')) => {
            wrong(format!("{field} holds a zero byte"))
        }
        Some(_) => Ok(()),
    }
}

fn commands(template: &Template) -> Result<(), Error> {
    for argv in &template.prepare {
        command("prepare", argv)?;
    }
    let mut names = std::collections::BTreeSet::new();
    for service in &template.services {
        if service.name.is_empty() || !names.insert(&service.name) {
            return wrong(format!(
                "services: the name \"{}\" must be set and unique",
                service.name
            ));
        }
        self::service(service)?;
    }
    Ok(())
}

fn service(service: &Service) -> Result<(), Error> {
    let field = format!("services.{}", service.name);
    command(&format!("{field}.argv"), &service.argv)?;
    absolute(&format!("{field}.cwd"), service.cwd.as_deref())?;
    environment(&format!("{field}.env"), service.env.iter())?;
    let Some(Ready { argv, tcp, http }) = &service.ready else {
        return Ok(());
    };
    let set = [argv.is_some(), tcp.is_some(), http.is_some()];
    if set.into_iter().filter(|set| *set).count() != 1 {
        return wrong(format!(
            "{field}.ready must have exactly one of argv, tcp and http"
        ));
    }
    if let Some(argv) = argv {
        command(&format!("{field}.ready.argv"), argv)?;
    }
    if *tcp == Some(0) {
        return wrong(format!("{field}.ready.tcp must be a port from 1 to 65535"));
    }
    if let Some(http) = http
        && !http.starts_with("http://")
    {
        return wrong(format!("{field}.ready.http must start with http://"));
    }
    Ok(())
}

fn limits(template: &Template) -> Result<(), Error> {
    let resources = &template.resources;
    if resources.pids == Some(0) || resources.inodes == Some(0) {
        return wrong("resources: a limit of 0 lets nothing run; leave it out for no limit");
    }
    if let (Upper::Memory, Some(memory), Some(disk)) =
        (template.upper, resources.memory, resources.disk)
        && disk.0.saturating_add(BESIDE_UPPER) > memory.0
    {
        return wrong(
            "with upper: memory, resources.disk must be at most resources.memory less 256Mi",
        );
    }
    if template
        .supply
        .reuses
        .is_some_and(|reuses| reuses > MOST_REUSES)
    {
        return wrong("supply.reuses must be from 0 to 8");
    }
    if template
        .supply
        .overcommit
        .is_some_and(|factor| !(factor >= 1.0 && factor.is_finite()))
    {
        return wrong("supply.overcommit must be 1 or more");
    }
    Ok(())
}

/// Refuses what a later version brings, by the field's name: a setting that is read and then
/// ignored would be worse than none.
fn offered(template: &Template) -> Result<(), Error> {
    let not_yet = |what: &str| Err(Error::NotYet(what.to_owned()));
    for network in [Some(template.network), template.prepare_network]
        .into_iter()
        .flatten()
    {
        match network {
            Network::None | Network::Host => {}
            Network::Pod => return not_yet("network: pod"),
        }
    }
    match template.supply.shrink {
        None | Some(Shrink::Off) => {}
        Some(Shrink::Full | Shrink::Requests) => return not_yet("supply.shrink"),
    }
    let kubernetes = [
        ("runtime_class", template.runtime_class.is_some()),
        ("node_selector", !template.node_selector.is_empty()),
        ("tolerations", !template.tolerations.is_empty()),
        ("pull_secrets", !template.pull_secrets.is_empty()),
        ("priority_class", template.priority_class.is_some()),
        ("supply.overcommit", template.supply.overcommit.is_some()),
    ];
    match kubernetes.into_iter().find(|(_, set)| *set) {
        Some((field, _)) => not_yet(&format!("{field} (a setting for Kubernetes)")),
        None => Ok(()),
    }
}
