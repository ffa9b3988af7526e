//! A template with everything filled in: what execd builds from and the pool decides by.

use innkeeper_images::Store;
use innkeeper_proto::v1;
use serde::{Deserialize, Serialize};

use super::form::Form;
use super::{
    Error, Network, Service, Strategy, Supply, Template, Upper, Verify, check, class, key, scrub,
};

/// What Docker sets where an image has no PATH of its own.
const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A template that is checked and bound to an image and a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What execd is sent; its `key` is the template key.
    pub spec: v1::TemplateSpec,
    /// The name of its slot class.
    pub class: String,
    /// How its slots are made.
    pub form: Form,
    /// The name that the image was asked for by.
    pub image: String,
    /// Whether a returned sandbox is put back at all (strategy `none`: it is not).
    pub single_use: bool,
    /// How often resets are verified deeper.
    pub verify: Verify,
    /// Supply settings for a class not declared yet.
    pub supply: Supply,
}

/// What of an image goes into a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// `sha256:…` of the image's config.
    pub digest: String,
    /// Bottom first, hex.
    pub layers: Vec<String>,
    /// `K=V`.
    pub env: Vec<String>,
    /// Empty where the image has none.
    pub user: String,
    /// Empty where the image has none.
    pub workdir: String,
    /// Answers that it holds are to be removed.
    #[serde(default)]
    pub scrub: bool,
}

/// What a template is bound to. All of it is part of the template key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ground {
    /// Whose sandboxes these are.
    pub tenant: String,
    /// The build of execd and the kernel: a baseline of another says nothing here.
    pub platform: String,
    /// The image.
    pub image: ImageFacts,
}

/// Looks up the image of `template` in `store`.
///
/// Reads one small file; nothing is changed.
pub fn look_up(template: &Template, store: &Store) -> Result<ImageFacts, Error> {
    let Some(name) = &template.image else {
        return Err(Error::Value(
            "image is missing: name an imported image".to_owned(),
        ));
    };
    let image = store.resolve(name)?;
    Ok(ImageFacts {
        digest: image.digest.to_string(),
        layers: image.layers.iter().map(ToString::to_string).collect(),
        env: image.config.env.clone(),
        user: image.config.user.clone().unwrap_or_default(),
        workdir: image.config.workdir.clone().unwrap_or_default(),
        scrub: image.scrub,
    })
}

/// Checks `template` and fills it in. Every error is the writer's to mend.
pub fn bind(template: &Template, ground: &Ground) -> Result<Resolved, Error> {
    check::check(template)?;
    let image = &ground.image;
    let resources = &template.resources;
    let mut spec = v1::TemplateSpec {
        key: String::new(),
        image_digest: image.digest.clone(),
        layers: image.layers.clone(),
        env: environment(image, template)
            .into_iter()
            .map(Into::into)
            .collect(),
        workdir: first([
            template.workdir.as_deref().unwrap_or(""),
            &image.workdir,
            "/",
        ]),
        user: first([template.user.as_deref().unwrap_or(""), &image.user, "root"]),
        base_commit: template
            .base_commit
            .clone()
            .unwrap_or_default()
            .to_ascii_lowercase(),
        prepare: template
            .prepare
            .iter()
            .map(|words| v1::Argv {
                words: words.clone(),
            })
            .collect(),
        services: template.services.iter().map(service).collect(),
        resources: Some(v1::Resources {
            cpu_millis: resources.cpu.map_or(0, |cpu| cpu.0),
            memory_bytes: resources.memory.map_or(0, |size| size.0),
            pids: resources.pids.unwrap_or(0),
            disk_bytes: resources.disk.map_or(0, |size| size.0),
            inodes: resources.inodes.unwrap_or(0),
        }),
        upper: upper(template.upper).into(),
        network: network(template.network).into(),
        prepare_network: network(template.prepare_network.unwrap_or(template.network)).into(),
        reuse_host_network: template.reuse_host_network,
        tenant: ground.tenant.clone(),
        restore: template.restore.clone(),
        workdir_copy: template.workdir_copy.as_str().to_owned(),
    };
    if image.scrub {
        // Last: what the prepare itself leaves goes too.
        spec.prepare.push(scrub::step(&spec));
    }
    let form = template.form();
    spec.key = key::of(&spec, template, &ground.platform);
    Ok(Resolved {
        class: class::name(&spec, template),
        form,
        spec,
        image: template
            .image
            .clone()
            .unwrap_or_else(|| image.digest.clone()),
        single_use: template.strategy == Strategy::None
            // The sockets that a rollout leaves in a shared namespace cannot be told from the
            // machine's own yet, so `reuse_host_network` allows nothing more.
            || template.network == Network::Host,
        verify: template.verify,
        supply: Supply {
            carry: Some(template.supply.carry.unwrap_or(form.carry())),
            ..template.supply.clone()
        },
    })
}

fn first<const N: usize>(choices: [&str; N]) -> String {
    choices
        .into_iter()
        .find(|choice| !choice.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// The image's variables in the image's order, with the template's in their place or behind.
fn environment(image: &ImageFacts, template: &Template) -> Vec<String> {
    let mut own = template.env.clone();
    let name_of = |line: &str| {
        line.split_once('=')
            .map_or(line, |(name, _)| name)
            .to_owned()
    };
    let mut merged: Vec<String> = image
        .env
        .iter()
        .map(|line| {
            let name = name_of(line);
            own.remove(&name)
                .map_or_else(|| line.clone(), |value| format!("{name}={value}"))
        })
        .collect();
    merged.extend(
        own.into_iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    if !merged.iter().any(|line| line.starts_with("PATH=")) {
        merged.insert(0, DEFAULT_PATH.to_owned());
    }
    merged
}

fn service(service: &Service) -> v1::Service {
    use v1::service::Ready;
    let ready = service.ready.as_ref().and_then(|ready| {
        let argv = ready
            .argv
            .clone()
            .map(|words| Ready::ReadyArgv(v1::Argv { words }));
        let tcp = ready.tcp.map(|port| Ready::ReadyTcp(port.into()));
        argv.or(tcp)
            .or_else(|| ready.http.clone().map(Ready::ReadyHttp))
    });
    v1::Service {
        name: service.name.clone(),
        argv: service.argv.clone(),
        env: service.env.clone().into_iter().collect(),
        cwd: service.cwd.clone().unwrap_or_default(),
        user: service.user.clone().unwrap_or_default(),
        ready,
    }
}

fn upper(upper: Upper) -> v1::UpperKind {
    match upper {
        Upper::Auto => v1::UpperKind::Auto,
        Upper::Memory => v1::UpperKind::Memory,
        Upper::Disk => v1::UpperKind::Disk,
    }
}

fn network(network: Network) -> v1::Network {
    match network {
        Network::None => v1::Network::None,
        Network::Host => v1::Network::Host,
        Network::Pod => v1::Network::Pod,
    }
}
