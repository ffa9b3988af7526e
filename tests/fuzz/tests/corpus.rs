//! The committed scripts read, and reach every kind.

use std::collections::BTreeSet;
use std::path::Path;

use innkeeper_test_script::{Kind, Script};

#[test]
fn every_script_of_the_corpus_reads_and_together_they_reach_every_kind() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut kinds = BTreeSet::new();
    let mut verbs = BTreeSet::new();
    let mut scripts = 0;
    for entry in folder.read_dir().expect("the corpus") {
        let path = entry.expect("an entry").path();
        assert_eq!(path.extension().and_then(|end| end.to_str()), Some("act"));
        let text = std::fs::read_to_string(&path).expect("text");
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(!script.operations.is_empty(), "{}", path.display());
        scripts += 1;
        for operation in &script.operations {
            kinds.insert(operation.verb().kind);
            verbs.insert(operation.verb().name);
        }
    }
    assert_eq!(kinds.len(), Kind::ALL.len());
    let all: BTreeSet<_> = innkeeper_test_script::verbs()
        .map(|verb| verb.name)
        .collect();
    let missing: Vec<_> = all.difference(&verbs).collect();
    println!(
        "{scripts} scripts with {} of {} verbs",
        verbs.len(),
        all.len()
    );
    assert!(missing.is_empty(), "in no script: {missing:?}");
}
