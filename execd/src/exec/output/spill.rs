//! The file of an output that memory does not hold. It has no name: it goes with its last
//! descriptor, however the daemon ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;

/// A file and how far it is written.
#[derive(Debug, Clone)]
pub(super) struct Spill {
    file: Arc<File>,
    length: u64,
}

/// Appends a frame, to a new file in `directory` where there is none yet.
pub(super) async fn write(
    spill: Option<Spill>,
    directory: PathBuf,
    frame: Vec<u8>,
) -> io::Result<Spill> {
    let write = move || {
        let Spill { file, length } = match spill {
            Some(spill) => spill,
            None => Spill {
                file: Arc::new(tempfile::tempfile_in(directory)?),
                length: 0,
            },
        };
        file.write_all_at(&frame, length)?;
        Ok(Spill {
            file,
            length: length + frame.len() as u64,
        })
    };
    spawn_blocking(write).await.map_err(io::Error::other)?
}

/// Reads `length` bytes at a place.
pub(super) async fn read(spill: Spill, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let read = move || {
        let mut bytes = vec![0; length];
        spill.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    };
    spawn_blocking(read).await.map_err(io::Error::other)?
}
