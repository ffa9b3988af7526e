use super::*;

fn output(memory: usize, total: u64) -> Output {
    Output::bounded(std::env::temp_dir(), Bounds { memory, total })
}

async fn read_all(output: &Output, offset: u64) -> (Vec<(Stream, u64, Vec<u8>)>, Ending) {
    let mut cursor = output.read_from(offset).unwrap();
    let mut pieces = Vec::new();
    loop {
        match output.next(&mut cursor).await {
            Next::Started(_) => {}
            Next::Output(piece) => {
                pieces.push((piece.stream(), piece.offset, piece.data.to_vec()));
            }
            Next::Ended(ending) => return (pieces, ending),
        }
    }
}

#[tokio::test]
async fn every_offset_gives_the_rest_without_gap_or_double() {
    // Memory for the first frames only, so that the seam to the file is crossed.
    let output = output(40, 10_000);
    let mut whole = Vec::new();
    for n in 0..50u8 {
        let stream = if n % 3 == 0 {
            Stream::Stderr
        } else {
            Stream::Stdout
        };
        let piece = vec![n; usize::from(n % 7)];
        output.append(stream, &piece).await;
        whole.extend_from_slice(&piece);
    }
    output.finish(Ending::Gone);
    for offset in 0..=whole.len() {
        let (pieces, ending) = read_all(&output, offset as u64).await;
        assert_eq!(ending, Ending::Gone);
        let mut at = offset;
        for (_, place, data) in pieces {
            assert_eq!(place, at as u64);
            assert_eq!(data, whole[at..at + data.len()]);
            at += data.len();
        }
        assert_eq!(at, whole.len());
    }
    assert!(output.read_from(whole.len() as u64 + 1).is_none());
}

#[tokio::test]
async fn marks_find_their_way_in_a_long_output() {
    let output = output(200_000, 10_000_000);
    for n in 0..2000u32 {
        output
            .append(Stream::Merged, &n.to_le_bytes().repeat(250))
            .await;
    }
    output.finish(Ending::Gone);
    for offset in [0, 1, 199_999, 200_000, 1_000_000, 1_999_999] {
        let (pieces, _) = read_all(&output, offset).await;
        let bytes: Vec<u8> = pieces.into_iter().flat_map(|(_, _, data)| data).collect();
        assert_eq!(bytes.len() as u64, 2_000_000 - offset);
        let n = u32::try_from(offset / 1000).unwrap().to_le_bytes();
        assert_eq!(bytes[0], n[usize::try_from(offset % 4).unwrap()]);
    }
}

#[tokio::test]
async fn streams_stay_apart_and_pieces_of_one_come_together() {
    let output = output(1000, 1000);
    output.append(Stream::Stdout, b"a").await;
    output.append(Stream::Stdout, b"b").await;
    output.append(Stream::Stderr, b"c").await;
    output.append(Stream::Stdout, b"d").await;
    output.finish(Ending::Gone);
    let (pieces, _) = read_all(&output, 0).await;
    assert_eq!(
        pieces,
        [
            (Stream::Stdout, 0, b"ab".to_vec()),
            (Stream::Stderr, 2, b"c".to_vec()),
            (Stream::Stdout, 3, b"d".to_vec()),
        ]
    );
}

#[tokio::test]
async fn what_is_over_the_limit_is_thrown_away_and_flagged() {
    let output = output(10, 30);
    for _ in 0..100 {
        output.append(Stream::Stdout, b"0123456789").await;
    }
    output.append(Stream::Stdout, b"z").await;
    output.finish(Ending::Finished(ExecFinished::default()));
    let (pieces, ending) = read_all(&output, 0).await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|(_, _, data)| data).collect();
    assert_eq!(bytes, b"01234567890123456789", "a beginning, without a gap");
    let Ending::Finished(done) = ending else {
        panic!("{ending:?}")
    };
    assert!(done.truncated);
}

#[tokio::test]
async fn a_file_that_cannot_be_made_truncates() {
    let output = Output::bounded(
        PathBuf::from("/nowhere"),
        Bounds {
            memory: 10,
            total: 1000,
        },
    );
    output.append(Stream::Stdout, b"first").await;
    output.append(Stream::Stdout, b"second").await;
    output.finish(Ending::Finished(ExecFinished::default()));
    let (pieces, ending) = read_all(&output, 0).await;
    assert_eq!(pieces, [(Stream::Stdout, 0, b"first".to_vec())]);
    assert!(matches!(
        ending,
        Ending::Finished(ExecFinished {
            truncated: true,
            ..
        })
    ));
}

#[tokio::test]
async fn readers_wait_for_what_is_to_come() {
    let output = std::sync::Arc::new(output(1000, 1000));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let output = output.clone();
            tokio::spawn(async move { read_all(&output, 0).await })
        })
        .collect();
    tokio::task::yield_now().await;
    output.start(7);
    output.append(Stream::Stdout, b"x").await;
    output.finish(Ending::Gone);
    output.finish(Ending::Lost("only the first end counts".to_owned()));
    for reader in readers {
        let (pieces, ending) = reader.await.unwrap();
        assert_eq!(pieces, [(Stream::Stdout, 0, b"x".to_vec())]);
        assert_eq!(ending, Ending::Gone);
    }
}
