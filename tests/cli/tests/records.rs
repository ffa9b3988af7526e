//! Signed records: where users find them, and what `verify` says of them without a manager.

use std::fs;

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};
use serde_json::Value;

fn served() -> Inn {
    let mut inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    let folder = rootfs.folder.to_str().unwrap();
    inn.run(["image", "import", folder, "--name", "t"]).ok();
    inn.serve(&[]);
    inn
}

fn lease(inn: &Inn) -> String {
    let lease = inn.line("lease t --json").ok().json();
    lease["lease"].as_str().unwrap().to_owned()
}

fn verify(inn: &Inn, text: &Value, key: &str) -> innkeeper_test_cli::Ran {
    let file = inn.file("record.json", text.to_string());
    inn.run(["verify", file.to_str().unwrap(), "--key", key])
}

#[test]
fn a_record_of_every_end_can_be_had_and_checked_offline() {
    needs_sandboxes!("a_record_of_every_end_can_be_had_and_checked_offline");
    let mut inn = served();
    let key = inn.state().join("attest.pub");
    let key = key.to_str().unwrap().to_owned();
    let first = lease(&inn);
    inn.line(&format!("exec {first} -- touch /left")).ok();
    inn.line(&format!("record {first}"))
        .fails(1, "there is no record of a lease");
    let returned = inn
        .line(&format!("return {first} --wait --verify full --json"))
        .ok()
        .json();
    let record = &returned["record"];
    for (name, value) in [
        ("digest", &returned["digest"]),
        ("verified", &returned["verified"]),
    ] {
        assert_eq!(&record["return"][name], value, "{name}");
    }
    for (name, component) in returned["components"].as_object().unwrap() {
        assert_eq!(&record["return"]["components"][name], component, "{name}");
    }
    let second = lease(&inn);
    // Nobody waits for this one; its record is made all the same.
    inn.line(&format!("return {second} --json")).ok();
    inn.until("the record of a return without --wait", || {
        let asked = inn.line(&format!("record {second}"));
        if asked.code == 0 {
            Ok(())
        } else {
            Err(asked.stderr)
        }
    });
    let kept = inn.line(&format!("record {second}")).ok().json();
    assert_eq!(
        (&kept["lease"]["supply"], &kept["lease"]["uses"]),
        (&"reused".into(), &1.into())
    );
    let third = lease(&inn);
    let discarded = inn
        .line(&format!("return {third} --discard --wait --json"))
        .ok()
        .json();
    assert_eq!(discarded["record"]["return"]["outcome"], "discarded");

    // From here on there is no manager.
    inn.stop_manager();
    let said = verify(&inn, record, &key).ok();
    assert!(
        said.stdout.contains("valid: every field is as the key"),
        "{}",
        said.stdout
    );
    // The whole output of `return` will do as well, and the kept file.
    verify(&inn, &discarded, &key).ok();
    let file = inn.state().join(format!("records/{second}.json"));
    inn.run(["verify", file.to_str().unwrap()]).ok();
    let text = fs::read(&file).unwrap();
    inn.fed("verify - --json", &text).ok();

    let mut better = record.clone();
    better["lease"]["uses"] = 0.into();
    better["lease"]["supply"] = "fresh".into();
    verify(&inn, record, &key).ok();
    better["return"]["verified"] = "swap".into();
    verify(&inn, &better, &key).fails(1, "is not what was signed: it was changed later");
    verify(&inn, &serde_json::json!([1]), &key).fails(1, "no record of innkeeper");
    verify(&inn, record, "/nowhere/attest.pub").fails(1, "--key");
    let other = Inn::new();
    let rootfs = Rootfs::make(&other.path("rootfs"));
    let folder = rootfs.folder.to_str().unwrap();
    other.run(["image", "import", folder, "--name", "t"]).ok();
    other.line("run t -- true").ok();
    let stranger = other.state().join("attest.pub");
    verify(&inn, record, stranger.to_str().unwrap()).fails(1, "names the key");
}

#[test]
fn the_key_is_out_of_a_guests_reach_and_survives_restarts() {
    needs_sandboxes!("the_key_is_out_of_a_guests_reach_and_survives_restarts");
    use std::os::unix::fs::MetadataExt;
    let mut inn = served();
    let private = inn.state().join("attest.key");
    assert_eq!(fs::metadata(&private).unwrap().mode() & 0o7777, 0o600);
    let (key, public) = (
        fs::read(&private).unwrap(),
        fs::read(inn.state().join("attest.pub")).unwrap(),
    );
    let guest = lease(&inn);
    let search = format!("cat {0} /proc/*/root{0} /proc/*/cwd{0}", private.display());
    let found = inn.run(["exec", &guest, "--", "sh", "-c", &search]);
    assert!(found.stdout.is_empty() && found.code != 0, "{found:?}");
    inn.kill_manager();
    inn.serve(&[]);
    let returned = inn
        .line(&format!("return {guest} --wait --json"))
        .ok()
        .json();
    assert_eq!(fs::read(&private).unwrap(), key);
    assert_eq!(fs::read(inn.state().join("attest.pub")).unwrap(), public);
    let file = inn.file("r.json", returned["record"].to_string());
    inn.run(["verify", file.to_str().unwrap()]).ok();
}
