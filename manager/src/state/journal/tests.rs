use super::*;
use innkeeper_pool::{ClassId, LeaseId, SlotId};

fn record(n: u64) -> Record {
    Record::SlotGone {
        slot: SlotId(format!("s-{n}")),
    }
}

fn written(path: &Path, steps: u64) {
    let mut journal = Journal::start(path, false, Vec::new(), Vec::new()).unwrap();
    for n in 0..steps {
        let seat = Some(Seat {
            generation: n,
            ..Seat::default()
        });
        let seats = vec![SeatRecord {
            slot: format!("s-{n}"),
            seat,
        }];
        journal.step(vec![record(n)], seats).unwrap();
    }
}

#[test]
fn what_was_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    assert!(load(&path).unwrap().records.is_empty());
    written(&path, 3);
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.records, [record(0), record(1), record(2)]);
    assert_eq!(loaded.seats.len(), 3);
    assert!(!loaded.torn && !loaded.embedded);
}

#[test]
fn a_kill_at_any_byte_loses_at_most_the_last_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    written(&path, 3);
    let whole = std::fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let loaded = load(&path).unwrap();
        let lines = whole[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert_eq!(
            loaded.records.len(),
            lines.saturating_sub(1),
            "cut at {length}"
        );
        assert_eq!(
            loaded.torn,
            length > 0 && whole[length - 1] != b'\n',
            "cut at {length}"
        );
    }
}

#[test]
fn damage_in_the_middle_is_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    written(&path, 3);
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 30;
    bytes[second] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = load(&path).unwrap_err().to_string();
    assert!(
        error.contains("line 2") && error.contains("move it away"),
        "{error}"
    );
}

#[test]
fn another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(
        &path,
        encode(&Line::Start {
            format: 99,
            embedded: false,
        }),
    )
    .unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("format 99"));
}

#[test]
fn the_short_form_replaces_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut journal = Journal::start(&path, true, Vec::new(), Vec::new()).unwrap();
    for n in 0..100 {
        journal.step(vec![record(n)], Vec::new()).unwrap();
    }
    let long = std::fs::metadata(&path).unwrap().len();
    let class = Record::ClassGone {
        class: ClassId("c".into()),
    };
    journal.shorten(vec![class.clone()], Vec::new()).unwrap();
    let gone = Record::LeaseGone {
        lease: LeaseId("l".into()),
    };
    journal.step(vec![gone.clone()], Vec::new()).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < long);
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.records, [class, gone]);
    assert!(loaded.embedded);
}
