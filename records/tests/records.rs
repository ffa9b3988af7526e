//! Records are checked as a stranger would try to change them.

use std::os::unix::fs::PermissionsExt;

use innkeeper_records::{Checked, Error, PublicKey, SignError, Signer, check};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

struct House {
    dir: tempfile::TempDir,
    signer: Signer,
    key: PublicKey,
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::open(dir.path()).unwrap();
    let key = PublicKey::read(&dir.path().join("attest.pub")).unwrap();
    House { dir, signer, key }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn facts() -> Map<String, Value> {
    object(json!({
        "kind": "grading", "verdict": "unresolved",
        "lease": {"uses": 3, "supply": "reused"}, "return": null,
    }))
}

impl House {
    fn signed(&self) -> Value {
        self.signer.sign(facts()).unwrap().into()
    }

    fn check(&self, record: &Value) -> Result<Checked, Error> {
        check(record.to_string().as_bytes(), &self.key)
    }

    fn error(&self, record: &Value) -> String {
        let error = self.check(record).unwrap_err();
        format!("{}: {error}", error.word())
    }
}

#[test]
fn a_record_stays_valid_however_it_is_laid_out_and_over_restarts() {
    let house = house();
    let record = house.signed();
    let pretty = serde_json::to_vec_pretty(&record).unwrap();
    let checked = check(&pretty, &house.key).unwrap();
    assert_eq!(checked.record["verdict"], "unresolved");
    assert_eq!(checked.key, house.key.name());
    let mut turned: Vec<_> = record.as_object().unwrap().iter().collect();
    turned.reverse();
    let turned: Vec<_> = turned.iter().map(|(k, v)| format!("{k:?}: {v}")).collect();
    check(format!("{{{}}}", turned.join(",\n")).as_bytes(), &house.key).unwrap();

    let again = Signer::open(house.dir.path()).unwrap();
    assert_eq!(again.public_key(), house.key);
    house.check(&again.sign(facts()).unwrap().into()).unwrap();
}

#[test]
fn what_was_changed_added_or_removed_is_named() {
    let house = house();
    let record = house.signed();
    let with = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut record = object(record.clone());
        change(&mut record);
        house.error(&record.into())
    };
    let changed = with(&|r| drop(r.insert("verdict".into(), "resolved".into())));
    assert!(
        changed.starts_with("changed: the field \"verdict\""),
        "{changed}"
    );
    let inside = with(&|r| r["lease"]["uses"] = 0.into());
    assert!(
        inside.starts_with("changed: the field \"lease\""),
        "{inside}"
    );
    let fraction = with(&|r| r["lease"]["uses"] = json!(3.0));
    assert!(
        fraction.starts_with("changed: the field \"lease\""),
        "{fraction}"
    );
    let added = with(&|r| drop(r.insert("note".into(), "looks good".into())));
    assert!(added.starts_with("added: the field \"note\""), "{added}");
    let removed = with(&|r| drop(r.remove("return")));
    assert!(
        removed.starts_with("removed: the field \"return\""),
        "{removed}"
    );
}

#[test]
fn what_is_no_record_says_so() {
    let house = house();
    let error = |text: &str| {
        let error = check(text.as_bytes(), &house.key).unwrap_err();
        format!("{}: {error}", error.word())
    };
    assert!(error("{").starts_with("json: "), "{}", error("{"));
    assert!(error("[]").starts_with("no_record"));
    assert!(error("{\"a\": 1}").starts_with("no_record"));
    let twice = house
        .signed()
        .to_string()
        .replacen('{', "{\"verdict\":\"resolved\",", 1);
    assert!(
        error(&twice).contains("\"verdict\" stands twice"),
        "{}",
        error(&twice)
    );
    let newer = r#"{"format":"innkeeper-record","version":2,"signature":{}}"#;
    assert!(error(newer).contains("version 2"), "{}", error(newer));
    assert!(error(r#"{"format":"innkeeper-record"}"#).contains("version none"));
    let bare = r#"{"format":"innkeeper-record","version":1,"unsigned":"there was no sandbox"}"#;
    assert_eq!(
        error(bare),
        "unsigned: it is not signed: there was no sandbox"
    );
}

#[test]
fn another_key_and_a_made_up_signature_are_told_apart() {
    let (house, other) = (house(), house());
    let strange = other.signed();
    let error = house.error(&strange);
    assert!(
        error.starts_with("other_key: ") && error.contains(&other.key.name()),
        "{error}"
    );
    // The stranger's signature under our key's name.
    let mut forged = strange.clone();
    forged["signature"]["key"] = house.key.name().into();
    assert!(
        house.error(&forged).starts_with("forged: "),
        "{}",
        house.error(&forged)
    );
    // A changed field with its hash set right needs a signature anew.
    let mut edited = house.signed();
    edited["verdict"] = "resolved".into();
    edited["signature"]["fields"]["verdict"] = blake3::hash(b"\"resolved\"").to_string().into();
    assert!(
        house.error(&edited).starts_with("forged: "),
        "{}",
        house.error(&edited)
    );
    for (field, value) in [
        ("algorithm", "none"),
        ("value", "00"),
        ("value", "zz"),
        ("extra", "x"),
    ] {
        let mut damaged = house.signed();
        damaged["signature"][field] = value.into();
        assert!(
            house.error(&damaged).starts_with("signature: "),
            "{}",
            house.error(&damaged)
        );
    }
}

#[test]
fn nothing_is_signed_that_could_be_read_in_two_ways() {
    let house = house();
    let sign = |value: Value| house.signer.sign(object(value)).unwrap_err();
    assert!(matches!(sign(json!({"t": 0.5})), SignError::Field { field, .. } if field == "t"));
    assert_eq!(
        sign(json!({"signature": null})),
        SignError::Reserved("signature")
    );
    assert_eq!(sign(json!({"version": 1})), SignError::Reserved("version"));
}

#[test]
fn a_key_is_made_once_and_never_replaced_quietly() {
    let house = house();
    let (private, public) = (
        house.dir.path().join("attest.key"),
        house.dir.path().join("attest.pub"),
    );
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&private), mode(&public)), (0o600, 0o644));
    let error = || Signer::open(house.dir.path()).unwrap_err().to_string();

    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(error().contains("can be read by others"), "{}", error());
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).unwrap();
    // The public half follows from the private one.
    std::fs::remove_file(&public).unwrap();
    assert_eq!(
        Signer::open(house.dir.path()).unwrap().public_key(),
        house.key
    );
    assert_eq!(PublicKey::read(&public).unwrap(), house.key);

    let kept = std::fs::read(&private).unwrap();
    for damaged in [
        &b""[..],
        b"-----BEGIN PRIVATE KEY-----\n",
        &kept[..kept.len() / 2],
    ] {
        std::fs::write(&private, damaged).unwrap();
        assert!(
            error().contains("holds no ed25519 private key"),
            "{}",
            error()
        );
        assert_eq!(std::fs::read(&private).unwrap(), damaged);
    }
    std::fs::remove_file(&private).unwrap();
    assert!(error().contains("does not belong to"), "{}", error());
    let other = self::house();
    std::fs::copy(other.dir.path().join("attest.key"), &private).unwrap();
    assert!(error().contains("does not belong to"), "{}", error());
    std::fs::write(&public, "nothing").unwrap();
    assert!(
        error().contains("holds no ed25519 public key"),
        "{}",
        error()
    );
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..9_007_199_254_740_991).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_passes_as_signed_and_fails_with_any_byte_of_meaning_changed(
        one in value(), two in value(), place in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        let house = house();
        let fields = object(json!({"one": one, "two": two}));
        let record = Value::from(house.signer.sign(fields).unwrap());
        let mut text = record.to_string().into_bytes();
        prop_assert_eq!(&Value::from(check(&text, &house.key).unwrap().record), &record);
        let place = place.index(text.len());
        text[place] ^= 1 << bit;
        // A changed byte either changes no meaning, such as a letter of an escape, or is seen.
        if let Ok(checked) = check(&text, &house.key) {
            prop_assert_eq!(&Value::from(checked.record), &record);
        }
    }
}
