//! Whatever a guest prints or a model submits, the readers end without a panic.

use innkeeper_grading::{Patch, flags, grade, log_text, parsers, read_log, read_rows};
use proptest::prelude::*;

/// Bytes with pieces that mean something to a reader of logs or patches.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(
        &[
            "\n",
            "\r",
            " ... ",
            "ok",
            "FAIL:",
            "ERROR:",
            "PASSED ",
            "FAILED",
            "[",
            "]",
            "é",
            "\u{1b}[0m",
            "test_x E",
            ">>>>> Start Test Output\n",
            ">>>>> End Test Output\n",
            ">>>>> Test Exit Code: 99999999999999999999",
            "diff --git ",
            "a/x b/x",
            "\"a/\\3",
            "\"",
            "--- ",
            "+++ ",
            "*** ",
            "@@ -1,99999999999999999999 +1 @@",
            "@@ -1 +1 @@\n",
            "rename from ",
            "rename to \"\\",
            "Index: ",
            "/dev/null",
            "..",
            "/",
            "new file mode 120000\n",
        ][..],
    );
    let piece = prop_oneof![3 => known.prop_map(|text| text.as_bytes().to_vec()), 1 => proptest::collection::vec(any::<u8>(), 0..8)];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsers_never_panic(log in bytes()) {
        let text = log_text(&log);
        for name in parsers::names() {
            // A log that names no test where it should is an error, which is an answer too.
            let _ = parsers::parse(name, &text);
            let _ = read_log(name, &text);
        }
    }

    #[test]
    fn the_patch_reader_never_panics_and_stays_inside(patch in bytes()) {
        for path in Patch::read(&patch).paths() {
            let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            prop_assert!(inside, "{path:?}");
        }
    }

    #[test]
    fn row_files_are_read_or_refused(content in bytes()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [b"[{\"instance_id\":".to_vec(), content.clone()].concat()).unwrap();
        prop_assert!(read_rows(file.path()).is_err());
        std::fs::write(file.path(), [b"PAR1".to_vec(), content, b"PAR1".to_vec()].concat()).unwrap();
        prop_assert!(read_rows(file.path()).is_err());
    }
}

#[test]
fn flags_and_grade_take_an_empty_row() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"instance_id": "a-1", "log_parser": "parse_log_django", "FAIL_TO_PASS": [], "PASS_TO_PASS": "[]"}"#).unwrap();
    let row = read_rows(file.path()).unwrap().remove(0);
    assert_eq!(flags(&Patch::read(b""), &row), []);
    assert!(!grade(&row.grading().unwrap(), "").unwrap().resolved);
}
