//! The slot class: what a slot cannot change once it exists.

use innkeeper_proto::v1;
use serde::Serialize;

use super::{Carry, Template, key};

#[derive(Serialize)]
struct Class<'a> {
    tenant: &'a str,
    cpu_millis: u64,
    memory_bytes: u64,
    pids: u64,
    disk_bytes: u64,
    inodes: u64,
    network: &'static str,
    strategy: &'static str,
    rights: &'static str,
    layout: &'static str,
    carry: &'static str,
    /// With `carry: own` a slot serves its one template only.
    template: Option<&'a str>,
}

/// The class's name: its readable parts and eight hex digits over all of them, for example
/// `default-none-any-3f0c91aa`. It is what `pools` shows and `drain` takes.
pub(super) fn name(spec: &v1::TemplateSpec, template: &Template) -> String {
    let resources = spec.resources.unwrap_or_default();
    let form = template.form();
    let carry = template.supply.carry.unwrap_or(form.carry());
    let class = Class {
        tenant: &spec.tenant,
        cpu_millis: resources.cpu_millis,
        memory_bytes: resources.memory_bytes,
        pids: resources.pids,
        disk_bytes: resources.disk_bytes,
        inodes: resources.inodes,
        network: template.network.as_str(),
        strategy: key::effective(template),
        rights: form.rights().as_str(),
        layout: form.layout().as_str(),
        carry: carry.as_str(),
        template: (carry == Carry::Own).then_some(spec.key.as_str()),
    };
    let bytes = serde_json::to_vec(&class).expect("the encoding has only string keys");
    let digest = blake3::Hasher::new_derive_key("innkeeper slot class")
        .update(&bytes)
        .finalize();
    let hash = &digest.to_hex()[..8];
    format!("{}-{}-{}-{hash}", spec.tenant, class.network, class.carry)
}
