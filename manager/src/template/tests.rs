use super::resolve::{Ground, ImageFacts, bind};
use super::*;

fn ground(tenant: &str) -> Ground {
    let image = ImageFacts {
        digest: "sha256:ab".into(),
        layers: vec!["01".into(), "02".into()],
        env: vec!["LANG=C".into(), "A=image".into()],
        user: String::new(),
        workdir: "/testbed".into(),
        scrub: false,
    };
    Ground {
        tenant: tenant.into(),
        platform: "here".into(),
        image,
    }
}

fn bound(text: &str) -> Resolved {
    bind(&text.parse().unwrap(), &ground("default")).unwrap()
}

fn refused(text: &str) -> String {
    bind(&text.parse().unwrap(), &ground("default"))
        .unwrap_err()
        .to_string()
}

const FULL: &str = "
image: demo
base_commit: 0123456789abcdef0123456789abcdef01234567
workdir: /testbed
user: root
env: {A: own, B: '2'}
prepare: [[sh, -c, 'true']]
services: [{name: db, argv: [db], ready: {tcp: 5432}}]
resources: {cpu: '1', memory: 2Gi, pids: 512, disk: 1Gi, inodes: 200000}
upper: auto
network: none
strategy: auto
verify: {walk_every: 4, full_every: 64}
supply: {mode: reuse, replace: ahead, carry: any, reuses: 8, idle_timeout: 300s, shrink: off}
";

#[test]
fn a_full_template_is_bound() {
    let template = bound(FULL);
    let env: Vec<_> = template
        .spec
        .env
        .iter()
        .map(|v| String::from_utf8_lossy(v))
        .collect();
    assert!(env[0].starts_with("PATH="));
    assert_eq!(env[1..], ["LANG=C", "A=own", "B=2"]);
    assert_eq!(template.spec.workdir, "/testbed");
    assert_eq!(template.spec.resources.unwrap().memory_bytes, 2 << 30);
    assert_eq!(template.spec.key.len(), 64);
    assert!(
        template.class.starts_with("default-none-any-"),
        "{}",
        template.class
    );
}

#[test]
fn json_and_yaml_are_the_same_template() {
    let yaml: Template = FULL.parse().unwrap();
    assert_eq!(yaml.to_json().parse::<Template>().unwrap(), yaml);
    assert_eq!(
        "{image: demo, network: none}"
            .parse::<Template>()
            .unwrap()
            .image
            .unwrap(),
        "demo"
    );
    assert_eq!("".parse::<Template>().unwrap(), Template::default());
}

#[test]
fn an_unknown_field_is_named() {
    for (text, field) in [
        ("imagee: x", "imagee"),
        ("{\"imagee\": \"x\"}", "imagee"),
        ("supply: {modes: warm}", "modes"),
        ("resources: {ram: 1Gi}", "ram"),
        ("services: [{name: a, argv: [a], redy: {}}]", "redy"),
        ("verify: {walk: 1}", "walk"),
    ] {
        let error = text.parse::<Template>().unwrap_err().to_string();
        assert!(error.contains(field), "{text}: {error}");
    }
}

#[test]
fn the_key_covers_what_a_sandbox_is_made_from() {
    let base = bound("{image: demo}");
    let written_out = "{image: other-name, workdir: /testbed, user: root, strategy: layered}";
    assert_eq!(bound(written_out).spec.key, base.spec.key);
    assert_eq!(
        bound("supply: {mode: warm, reuses: 3}").spec.key,
        base.spec.key
    );
    for other in [
        "workdir: /",
        "user: nobody",
        "env: {A: b}",
        "prepare: [[a]]",
        "prepare: [[a, b]]",
        "services: [{name: a, argv: [a]}]",
        "services: [{name: a, argv: [a], ready: {tcp: 1}}]",
        "resources: {memory: 1Gi}",
        "network: host",
        "prepare_network: host",
        "upper: disk",
        "base_commit: 0123456789",
        "strategy: none",
    ] {
        assert_ne!(bound(other).spec.key, base.spec.key, "{other}");
    }
    let bind = |ground: &Ground| bind(&Template::default(), ground).unwrap();
    let other_tenant = bind(&ground("other"));
    assert_ne!(other_tenant.spec.key, base.spec.key);
    assert_ne!(other_tenant.class, base.class);
    let elsewhere = bind(&Ground {
        platform: "elsewhere".into(),
        ..ground("default")
    });
    assert_ne!(elsewhere.spec.key, base.spec.key);
    assert_eq!(elsewhere.class, base.class);
}

#[test]
fn the_class_is_what_a_slot_cannot_change() {
    let base = bound("{}");
    assert_eq!(bound("prepare: [[a]]").class, base.class);
    assert_ne!(bound("resources: {memory: 1Gi}").class, base.class);
    let own = |more: &str| bound(&format!("{{supply: {{carry: own}}{more}}}")).class;
    assert_ne!(own(""), base.class);
    assert_ne!(own(""), own(", prepare: [[a]]"));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (text, word) in [
        ("workdir: testbed", "absolute"),
        ("base_commit: main", "base_commit"),
        ("prepare: [[]]", "prepare"),
        (
            "services: [{name: a, argv: [a]}, {name: a, argv: [a]}]",
            "unique",
        ),
        ("services: [{name: a, argv: [a], ready: {}}]", "exactly one"),
        (
            "resources: {memory: 1Gi, disk: 1Gi}\nupper: memory",
            "256Mi",
        ),
        ("supply: {reuses: 9}", "reuses"),
        ("{strategy: sliced, supply: {carry: any}}", "supply.carry"),
        ("runtime_class: gvisor", "runtime_class"),
        ("supply: {shrink: full}", "shrink"),
    ] {
        let error = refused(text);
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn the_hosts_network_is_used_once_unless_said_otherwise() {
    assert!(bound("network: host").single_use);
    assert!(bound("{network: host, reuse_host_network: true}").single_use);
    assert!(bound("strategy: none").single_use);
    assert!(!bound("{}").single_use);
}

#[test]
fn an_image_that_is_to_be_scrubbed_has_one_more_step_at_the_end_and_another_key() {
    let text = FULL.parse().unwrap();
    let plain = bind(&text, &ground("default")).unwrap();
    let mut marked = ground("default");
    marked.image.scrub = true;
    let scrubbed = bind(&text, &marked).unwrap();
    let (last, before) = scrubbed.spec.prepare.split_last().unwrap();
    assert_eq!(before, plain.spec.prepare);
    assert_eq!(last.words.last(), text.base_commit.as_ref());
    assert_ne!(scrubbed.spec.key, plain.spec.key);
    assert_eq!(scrubbed.class, plain.class);
}
