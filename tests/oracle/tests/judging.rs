//! What the oracle calls a difference, and what noise.

use innkeeper_test_oracle::{Noise, Record, RecordError, compare};

fn record(fields: &[(&str, &str, &str)]) -> Record {
    let mut record = Record::new();
    for (subject, field, value) in fields {
        record.put(subject, field, *value);
    }
    record
}

fn fresh(different: impl Fn(usize) -> Record) -> Vec<Record> {
    (0..Noise::FEWEST).map(different).collect()
}

#[test]
fn a_record_that_is_cut_off_is_none() {
    let whole = record(&[
        ("host", "nodename", "sandbox"),
        ("file /\\xff", "mode", "0644"),
    ]);
    let mut text = Vec::new();
    whole.write(&mut text).unwrap();
    assert_eq!(Record::read(&text).unwrap(), whole);
    for end in 0..text.len() - 1 {
        assert!(
            Record::read(&text[..end]).is_err(),
            "{end} of {} bytes",
            text.len()
        );
    }
    let text = String::from_utf8(text).unwrap();
    let fewer = text.replace(r#""file /\\xff":{"mode":"0644"},"#, "");
    assert_ne!(fewer, text);
    assert!(matches!(
        Record::read(fewer.as_bytes()),
        Err(RecordError::Count { .. })
    ));
    let newer = text.replace(r#""version":1"#, r#""version":2"#);
    assert!(matches!(
        Record::read(newer.as_bytes()),
        Err(RecordError::Version(2))
    ));
}

#[test]
fn what_is_seen_twice_stays_visible() {
    let twice = record(&[("mount /", "options", "rw"), ("mount /", "options", "ro")]);
    assert_eq!(twice.get("mount /", "options"), Some("ro"));
    assert_eq!(twice.get("mount /", "options (seen twice)"), Some("rw"));
}

#[test]
fn a_difference_is_noise_only_in_the_very_field_that_was_seen_to_differ() {
    let at = |number: usize| {
        let time = number.to_string();
        record(&[
            ("file /", "ctime", &time),
            ("file /etc", "ctime", "0"),
            ("file /etc", "mode", "0755"),
        ])
    };
    let noise = Noise::learn(&fresh(at)).unwrap();
    assert_eq!(noise.learned(), 1);
    let one = at(0);
    let now = |root, other, mode| {
        record(&[
            ("file /", "ctime", root),
            ("file /etc", "ctime", other),
            ("file /etc", "mode", mode),
        ])
    };
    assert_eq!(compare(&one, &noise, &now("99", "0", "0755")), []);
    let named = |now: &Record| {
        let found = compare(&one, &noise, now);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        named(&now("99", "1", "0755")),
        ["file /etc ctime: 0 when fresh, 1 now"]
    );
    assert_eq!(
        named(&now("99", "0", "0777")),
        ["file /etc mode: 0755 when fresh, 0777 now"]
    );
}

#[test]
fn what_only_one_has_is_a_difference() {
    let noise = Noise::learn(&fresh(|_| record(&[("file /a", "mode", "0644")]))).unwrap();
    let one = record(&[("file /a", "mode", "0644")]);
    let more = record(&[("file /a", "mode", "0644"), ("file /b", "mode", "0644")]);
    assert_eq!(compare(&one, &noise, &more)[0].fresh, None);
    assert_eq!(compare(&one, &noise, &Record::new())[0].now, None);
    // Even where the field is one that moves by itself, another process is another process.
    let process = record(&[
        ("file /a", "mode", "0644"),
        ("process x #0", "status VmRSS", "1"),
        ("process x #0", "comm", "x"),
    ]);
    let found = compare(&one, &noise, &process);
    assert_eq!(
        found.iter().map(|one| &*one.field).collect::<Vec<_>>(),
        ["comm"]
    );
}

#[test]
fn fresh_ones_may_not_differ_in_what_the_list_does_not_name() {
    let differing = |number: usize| {
        record(&[(
            "file /etc/passwd",
            "mode",
            if number == 3 { "0600" } else { "0644" },
        )])
    };
    let unexcused = Noise::learn(&fresh(differing)).unwrap_err();
    assert_eq!(unexcused.0, [r#"file /etc/passwd mode: "0644" and "0600""#]);
}

#[test]
fn in_place_is_excused_from_what_nobody_can_restore_and_from_no_more() {
    let one = record(&[
        ("file /d", "type", "directory"),
        ("file /d", "size", "4096"),
        ("file /d", "ctime", "1"),
        ("file /f", "type", "file"),
        ("file /f", "size", "4096"),
        ("file /f", "btime", "1"),
    ]);
    let now = record(&[
        ("file /d", "type", "directory"),
        ("file /d", "size", "8192"),
        ("file /d", "ctime", "2"),
        ("file /f", "type", "file"),
        ("file /f", "size", "8192"),
        ("file /f", "btime", "2"),
    ]);
    let noise = Noise::learn(&fresh(|_| one.clone())).unwrap();
    assert_eq!(compare(&one, &noise, &now).len(), 4);
    let found = compare(&one, &noise.in_place(), &now);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&*found[0].subject, &*found[0].field), ("file /f", "size"));
}

#[test]
fn the_list_is_short_and_has_reasons() {
    let list = Noise::list();
    assert!(list.len() < 70, "{} lines", list.len());
    for pattern in &list {
        assert!(pattern.why.len() > 3, "{pattern}");
        assert_ne!(
            (&*pattern.subject, &*pattern.field),
            ("*", "*"),
            "{pattern}"
        );
    }
}
