//! File calls.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use innkeeper_proto::limits;
use innkeeper_proto::v1::file_write_request::Message;
use innkeeper_proto::v1::{
    FileKind, FileReadRequest, FileWriteRequest, FileWriteStart, FileWritten, PathRequest,
};
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::Sandbox;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

/// A file to write, and its mode.
pub(crate) fn start(sandbox: &Sandbox, path: &[u8], mode: u32) -> FileWriteStart {
    FileWriteStart {
        target: sandbox.target(),
        path: Bytes::copy_from_slice(path),
        mode,
        ..FileWriteStart::default()
    }
}

/// Writes a file of some pieces.
pub(crate) async fn write(
    sandbox: &Sandbox,
    start: FileWriteStart,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Result<FileWritten, Status> {
    let pieces = pieces.into_iter().map(Message::Data);
    let messages: Vec<_> = std::iter::once(Message::Start(start))
        .chain(pieces)
        .map(|message| FileWriteRequest {
            message: Some(message),
        })
        .collect();
    Ok(sandbox
        .client
        .clone()
        .write_file(tokio_stream::iter(messages))
        .await?
        .into_inner())
}

/// Reads a file, or a part.
pub(crate) async fn read(
    sandbox: &Sandbox,
    path: &[u8],
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Status> {
    let target = sandbox.target();
    let request = FileReadRequest {
        target,
        path: Bytes::copy_from_slice(path),
        offset,
        length,
    };
    let mut chunks = sandbox
        .client
        .clone()
        .read_file(request)
        .await?
        .into_inner();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.message().await? {
        assert!(chunk.data.len() <= limits::CHUNK);
        whole.extend_from_slice(&chunk.data);
    }
    Ok(whole)
}

pub(crate) async fn a_file_comes_back_as_it_was_sent(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let data: Vec<u8> = (0..3_000_000u32)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 7).to_le_bytes())
        .collect();
    let path = b"/there/new/di\xffr/file";
    let wish = FileWriteStart {
        make_parents: true,
        uid: 1000,
        gid: 7,
        ..start(&sandbox, path, 0o4751)
    };
    let pieces = data.chunks(100_000).map(Bytes::copy_from_slice);
    let written = write(&sandbox, wish, pieces).await?;
    assert_eq!(
        (written.size, &*written.hash),
        (12_000_000, blake3::hash(&data).as_bytes().as_slice())
    );
    assert_eq!(read(&sandbox, path, 0, 0).await?, data);
    assert_eq!(
        read(&sandbox, path, 5_000_001, 77_777).await?,
        &data[5_000_001..5_077_778]
    );
    assert_eq!(read(&sandbox, path, 11_999_999, 50).await?.len(), 1);
    assert!(read(&sandbox, path, 50_000_000, 0).await?.is_empty());
    let info = sandbox
        .client
        .clone()
        .stat(sandbox.path(path))
        .await?
        .into_inner();
    assert_eq!(
        (info.kind(), info.mode, info.uid, info.gid, info.size),
        (FileKind::File, 0o4751, 1000, 7, 12_000_000)
    );
    let said = sandbox
        .sh("ls -ln /there/new/*/; ls -A /there/new/*/")
        .await?;
    assert!(
        said.text().contains("-rwsr-x--x 1 1000 7 12000000"),
        "{}",
        said.text()
    );
    assert!(
        said.text().ends_with("\nfile\n"),
        "nothing else is left: {}",
        said.text()
    );
    // Relative paths begin at the working directory; what is there is replaced.
    write(&sandbox, start(&sandbox, b"small", 0), [Bytes::from("one")]).await?;
    write(&sandbox, start(&sandbox, b"/there/small", 0), []).await?;
    assert!(read(&sandbox, b"small", 0, 0).await?.is_empty());
    Ok(())
}

pub(crate) async fn a_broken_off_upload_changes_nothing(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    write(
        &sandbox,
        start(&sandbox, b"/there/f", 0),
        [Bytes::from("old")],
    )
    .await?;
    let (messages, stream) = mpsc::channel(4);
    let send = |message| {
        let messages = messages.clone();
        async move {
            messages
                .send(FileWriteRequest {
                    message: Some(message),
                })
                .await
        }
    };
    send(Message::Start(start(&sandbox, b"/there/f", 0))).await?;
    send(Message::Data(Bytes::from(vec![1; 1_000_000]))).await?;
    let mut client = sandbox.client.clone();
    let call = tokio::spawn(async move { client.write_file(ReceiverStream::new(stream)).await });
    // Under way once its file stands beside the old one.
    while sandbox.sh("ls -A /there").await?.text().lines().count() < 2 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.is_err());
    while sandbox.sh("ls -A /there").await?.text() != "f\n" {
        tokio::task::yield_now().await;
    }
    // A stream that ends in good order would have been a whole file.
    drop(messages);
    assert!(read(&sandbox, b"/there/f", 0, 0).await? == b"old");
    // Nor does one that does not fit.
    let zeros = Bytes::from(vec![0; 1 << 20]);
    let pieces = std::iter::repeat_n(zeros, 140);
    let full = write(&sandbox, start(&sandbox, b"/there/f", 0), pieces)
        .await
        .unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    assert_eq!(read(&sandbox, b"/there/f", 0, 0).await?, b"old");
    assert_eq!(sandbox.sh("ls -A /there").await?.text(), "f\n");
    Ok(())
}

/// Kilobytes of the daemon's memory that are its own.
fn memory_of(pid: i32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    Ok(line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .unwrap_or("0")
        .parse()?)
}

pub(crate) async fn gigabytes_take_no_memory(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let pid = sandbox
        .client
        .clone()
        .hello(innkeeper_proto::v1::Empty {})
        .await?
        .into_inner()
        .pid;
    let before = memory_of(pid)?;
    // A file with a hole takes no disk and is read like any other.
    sandbox
        .sh("dd if=/dev/null of=/there/big bs=1 seek=1073741824")
        .await?
        .code()?;
    let request = FileReadRequest {
        target: sandbox.target(),
        path: Bytes::from("/there/big"),
        ..FileReadRequest::default()
    };
    let mut chunks = sandbox
        .client
        .clone()
        .read_file(request)
        .await?
        .into_inner();
    let (mut size, mut most) = (0, 0);
    while let Some(chunk) = chunks.message().await? {
        size += chunk.data.len();
        if size % (64 << 20) < limits::CHUNK {
            most = most.max(memory_of(pid)?);
        }
    }
    assert_eq!(size, 1 << 30);
    assert!(most < before + 64 * 1024, "{before} kB grew to {most} kB");
    Ok(())
}

pub(crate) async fn directories_are_listed_and_removed(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "mkdir d; cd d; mkdir sub; touch a; ln -s a l; mkfifo p; chmod 640 a; \
                  i=0; while [ $i -lt 300 ]; do mkdir deep_deep_deep_deep_deep && \
                  cd -P deep_deep_deep_deep_deep || exit; i=$((i+1)); done; touch end";
    assert_eq!(sandbox.sh(script).await?.code()?, 0);
    let client = &mut sandbox.client.clone();
    let list = client.list(sandbox.path("d")).await?.into_inner().entries;
    let names: Vec<_> = list
        .iter()
        .map(|entry| (&*entry.path, entry.kind()))
        .collect();
    assert_eq!(
        names,
        [
            (b"a".as_slice(), FileKind::File),
            (b"deep_deep_deep_deep_deep".as_slice(), FileKind::Directory),
            (b"l".as_slice(), FileKind::Symlink),
            (b"p".as_slice(), FileKind::Fifo),
            (b"sub".as_slice(), FileKind::Directory),
        ]
    );
    assert_eq!(
        (list[0].mode, &*list[2].link_target),
        (0o640, b"a".as_slice())
    );
    let deep = [
        b"/there/d".to_vec(),
        b"/deep_deep_deep_deep_deep".repeat(300),
        b"/end".to_vec(),
    ]
    .concat();
    assert_eq!(
        client.stat(sandbox.path(&deep)).await?.into_inner().kind(),
        FileKind::File
    );
    let error = client.remove(sandbox.path("d")).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    client
        .remove(PathRequest {
            recursive: true,
            ..sandbox.path("d")
        })
        .await?;
    assert_eq!(
        client.stat(sandbox.path("d")).await.unwrap_err().code(),
        Code::NotFound
    );
    sandbox
        .sh("mkdir many; cd many; seq 1 30000 | while read n; do : >file_$n; done")
        .await?;
    assert_eq!(
        client
            .list(sandbox.path("many"))
            .await?
            .into_inner()
            .entries
            .len(),
        30_000
    );
    Ok(())
}

pub(crate) async fn paths_stay_inside_and_errors_have_codes(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let client = &mut sandbox.client.clone();
    sandbox
        .sh("ln -s / root; ln -s ../../../../../../etc up; ln -s /proc/1/root out")
        .await?;
    let passwd = sandbox.sh("cat /etc/passwd").await?.stdout;
    for path in [
        "/../../../etc/passwd",
        "root/etc/passwd",
        "up/passwd",
        "/there/../etc/passwd",
    ] {
        assert_eq!(
            read(&sandbox, path.as_bytes(), 0, 0).await?,
            passwd,
            "{path}"
        );
    }
    assert!(
        read(&sandbox, b"out/etc/passwd", 0, 0).await.is_err(),
        "a magic link is not followed"
    );
    let link = client.stat(sandbox.path("root")).await?.into_inner();
    assert_eq!(
        (link.kind(), &*link.link_target),
        (FileKind::Symlink, b"/".as_slice())
    );
    let target = client
        .stat(PathRequest {
            follow: true,
            ..sandbox.path("root")
        })
        .await?
        .into_inner();
    assert_eq!(target.kind(), FileKind::Directory);
    for (path, code) in [
        ("/nowhere", Code::NotFound),
        ("/etc/passwd/x", Code::FailedPrecondition),
        ("", Code::InvalidArgument),
        ("a\0b", Code::InvalidArgument),
    ] {
        assert_eq!(
            client.stat(sandbox.path(path)).await.unwrap_err().code(),
            code,
            "{path:?}"
        );
    }
    let error = write(&sandbox, start(&sandbox, b"/nowhere/x", 0), [])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let error = write(&sandbox, start(&sandbox, b"/etc", 0), [])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let error = client
        .remove(PathRequest {
            recursive: true,
            ..sandbox.path("/")
        })
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    // A link of the image is followed, one made since is not.
    write(
        &sandbox,
        start(&sandbox, b"/image-link/x", 0),
        [Bytes::from("x")],
    )
    .await?;
    assert_eq!(read(&sandbox, b"/there/x", 0, 0).await?, b"x");
    let error = write(&sandbox, start(&sandbox, b"root/there/y", 0), [])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(error.message().contains("root -> /"), "{error}");
    Ok(())
}
