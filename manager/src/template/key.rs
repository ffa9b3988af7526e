//! The template key: one digest of everything that a sandbox is made from.

use std::collections::BTreeMap;

use innkeeper_proto::v1;
use serde::Serialize;

use super::{Strategy, Template, Verify};

/// The encoding's version; raised when a field is added or changes its meaning, so that an
/// older key is never taken for a newer one.
const VERSION: u32 = 2;

/// All that enters the key, in a fixed order. Values are those after resolving: a default
/// written out gives the same key as one left out. Supply settings are no part of it.
#[derive(Serialize)]
struct Canonical<'a> {
    version: u32,
    tenant: &'a str,
    platform: &'a str,
    image: &'a str,
    base_commit: &'a str,
    workdir: &'a str,
    user: &'a str,
    env: Vec<&'a [u8]>,
    prepare: Vec<&'a [String]>,
    services: Vec<CanonicalService<'a>>,
    cpu_millis: u64,
    memory_bytes: u64,
    pids: u64,
    disk_bytes: u64,
    inodes: u64,
    upper: i32,
    workdir_copy: &'static str,
    network: i32,
    prepare_network: i32,
    reuse_host_network: bool,
    strategy: &'static str,
    rights: &'static str,
    layout: &'static str,
    restore: &'a [String],
    verify: Verify,
}

#[derive(Serialize)]
struct CanonicalService<'a> {
    name: &'a str,
    argv: &'a [String],
    env: BTreeMap<&'a str, &'a str>,
    cwd: &'a str,
    user: &'a str,
    ready: Option<(&'static str, Vec<String>)>,
}

/// The key of a resolved template, as 64 hex digits of blake3. `spec.key` is not read.
pub(super) fn of(spec: &v1::TemplateSpec, template: &Template, platform: &str) -> String {
    let resources = spec.resources.unwrap_or_default();
    let form = template.form();
    let canonical = Canonical {
        version: VERSION,
        tenant: &spec.tenant,
        platform,
        image: &spec.image_digest,
        base_commit: &spec.base_commit,
        workdir: &spec.workdir,
        user: &spec.user,
        env: spec.env.iter().map(|line| &line[..]).collect(),
        prepare: spec
            .prepare
            .iter()
            .map(|argv| argv.words.as_slice())
            .collect(),
        services: spec.services.iter().map(service).collect(),
        cpu_millis: resources.cpu_millis,
        memory_bytes: resources.memory_bytes,
        pids: resources.pids,
        disk_bytes: resources.disk_bytes,
        inodes: resources.inodes,
        upper: spec.upper,
        workdir_copy: template.workdir_copy.as_str(),
        network: spec.network,
        prepare_network: spec.prepare_network,
        reuse_host_network: spec.reuse_host_network,
        strategy: effective(template),
        rights: form.rights().as_str(),
        layout: form.layout().as_str(),
        restore: &template.restore,
        verify: template.verify,
    };
    let bytes = serde_json::to_vec(&canonical).expect("the encoding has only string keys");
    blake3::Hasher::new_derive_key("innkeeper template key")
        .update(&bytes)
        .finalize()
        .to_string()
}

/// The word for how its sandboxes are put back: the form's strategy, or `none`.
pub(super) fn effective(template: &Template) -> &'static str {
    match template.strategy {
        Strategy::None => Strategy::None.as_str(),
        Strategy::Auto | Strategy::Layered | Strategy::Sliced | Strategy::InPlace => {
            template.form().strategy().as_str()
        }
    }
}

fn service(service: &v1::Service) -> CanonicalService<'_> {
    use v1::service::Ready;
    CanonicalService {
        name: &service.name,
        argv: &service.argv,
        env: service
            .env
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect(),
        cwd: &service.cwd,
        user: &service.user,
        ready: service.ready.as_ref().map(|ready| match ready {
            Ready::ReadyArgv(argv) => ("argv", argv.words.clone()),
            Ready::ReadyTcp(port) => ("tcp", vec![port.to_string()]),
            Ready::ReadyHttp(url) => ("http", vec![url.clone()]),
        }),
    }
}
