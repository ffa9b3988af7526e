//! Floors: what the kernel takes for the bare thing, measured by `execd floor` in a process of
//! its own, so that this process's size and runtime have no part in it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use tokio::process::Command;

use crate::cli::failure::Failure;

/// One batch of a floor.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Batch {
    p50_us: f64,
}

/// A floor to measure.
#[derive(Clone, Debug)]
pub(super) enum Floor {
    /// clone3 of the namespaces that a sandbox has, an overlay, exec, exit and reaping.
    Clone,
    /// posix_spawn of `true` and its reaping.
    Spawn,
    /// statx of every entry below these folders.
    Walk(Vec<PathBuf>),
    /// So many bytes through a unix socket.
    Socket(u64),
}

impl Floor {
    /// The median of a batch of `n`, in milliseconds.
    pub(super) async fn batch(&self, n: usize) -> Result<f64, Failure> {
        match self {
            Self::Clone => execd(&["clone".into()], n).await,
            Self::Spawn => execd(&["spawn".into()], n).await,
            Self::Socket(bytes) => execd(&["socket".into(), bytes.to_string().into()], n).await,
            Self::Walk(folders) => {
                let mut sum = 0.0;
                for folder in folders {
                    sum += execd(&["walk".into(), folder.clone()], n).await?;
                }
                Ok(sum)
            }
        }
    }
}

/// A verifying walk of the tree of these layers, bottom first, in turn with a bare walk of it: (floor,
/// value), both medians in milliseconds.
pub(super) async fn verify(layers: &[PathBuf], n: usize) -> Result<(f64, f64), Failure> {
    #[derive(serde::Deserialize)]
    struct Both {
        floor: Batch,
        value: Batch,
    }
    let words: Vec<PathBuf> = std::iter::once("verify".into())
        .chain(layers.iter().cloned())
        .collect();
    let both: Both = answer(&words, n).await?;
    Ok((both.floor.p50_us / 1000.0, both.value.p50_us / 1000.0))
}

async fn execd(what: &[PathBuf], n: usize) -> Result<f64, Failure> {
    let batch: Batch = answer(what, n).await?;
    Ok(batch.p50_us / 1000.0)
}

async fn answer<T: serde::de::DeserializeOwned>(what: &[PathBuf], n: usize) -> Result<T, Failure> {
    let program = innkeeper::provider::local::find_execd(None).map_err(Failure::failed)?;
    let run = Command::new(&program)
        .arg("floor")
        .args(what)
        .arg("--n")
        .arg(n.to_string())
        .output();
    let output = run
        .await
        .map_err(|e| Failure::failed(format_args!("cannot run {}: {e}", program.display())))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::failed(format_args!(
            "a floor could not be measured: {}",
            said.trim()
        )));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| {
        Failure::failed(format_args!(
            "the answer of `execd floor` is not readable: {e}"
        ))
    })
}

/// Milliseconds for reading all contents below these folders once: the floor of a full verify.
pub(super) fn read_all(folders: &[PathBuf]) -> std::io::Result<f64> {
    let started = Instant::now();
    let mut buffer = vec![0; 1024 * 1024];
    for folder in folders {
        read_below(folder, &mut buffer)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}

fn read_below(folder: &Path, buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_below(&entry.path(), buffer)?;
        } else if kind.is_file() {
            let mut file = std::fs::File::open(entry.path())?;
            while file.read(buffer)? > 0 {}
        }
    }
    Ok(())
}
