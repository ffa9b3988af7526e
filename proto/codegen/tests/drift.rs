//! The committed code is what the `.proto` files say.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Every file of a folder by its name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("text");
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                text,
            )
        })
        .collect()
}

#[test]
fn the_committed_code_is_what_the_protos_say() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drift");
    let _ = std::fs::remove_dir_all(&scratch);
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper-proto-codegen"))
        .arg(&proto)
        .arg(&scratch)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let (committed, made) = (files(&proto.join("src/gen")), files(&scratch));
    assert!(
        committed.keys().eq(made.keys()),
        "files {:?} are committed, {:?} are made: run `make proto`",
        committed.keys(),
        made.keys()
    );
    for (name, text) in &made {
        assert!(
            committed[name] == *text,
            "{name} has drifted from the .proto files: run `make proto`"
        );
    }
}
