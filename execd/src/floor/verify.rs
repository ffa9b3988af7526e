//! A walk that verifies, beside a bare walk of the same tree. Both get an overlay that nobody
//! has looked at, as a reset gives: in such a one every name is looked up for the first time.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use anyhow::bail;
use innkeeper_reset::capture::{Options, Trust, capture};
use innkeeper_reset::files;
use innkeeper_reset::ids::IdMap;
use rustix::fs::{AtFlags, Mode, mkdirat, open, openat};

use super::{DIRECTORY, summary, walk_from};
use crate::sandbox::device::set_fixed_times;
use crate::sys::mount::{Filesystem, NODEV};

/// Runs both in turn and prints `{"floor": {...}, "value": {...}, "entries"}`, each as
/// [`super::run`] prints one.
pub(super) fn run(layers: &[&str], n: usize) -> anyhow::Result<()> {
    if n == 0 {
        bail!("--n must be at least 1");
    }
    let options = Options::new(IdMap::CANONICAL);
    let baseline = capture(merged(layers)?.as_fd(), &options)?.tree;
    let (mut bare, mut verified) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let tree = openat(merged(layers)?, ".", DIRECTORY, Mode::empty())?;
        bare.push(timed(|| walk_from(tree))?);
        let tree = merged(layers)?;
        let trust = Some(Trust::ReadOnlyLower);
        verified.push(timed(|| {
            let report = files::walk(tree.as_fd(), &baseline, trust, &options, 1)?;
            if !report.is_equal() {
                bail!("the tree differs from itself: {:?}", report.differences());
            }
            Ok(())
        })?);
    }
    for times in [&mut bare, &mut verified] {
        times.sort_by(f64::total_cmp);
    }
    let (floor, value, entries) = (summary(&bare), summary(&verified), baseline.len());
    println!("{{\"floor\":{floor},\"value\":{value},\"entries\":{entries}}}");
    Ok(())
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// A fresh overlay over these layers, bottom first, with an empty upper.
fn merged(layers: &[&str]) -> anyhow::Result<OwnedFd> {
    let tmpfs = Filesystem::open(c"tmpfs")?.mount(NODEV)?;
    let part = |name: &str| -> anyhow::Result<OwnedFd> {
        mkdirat(&tmpfs, name, Mode::from_raw_mode(0o755))?;
        Ok(openat(&tmpfs, name, DIRECTORY, Mode::empty())?)
    };
    let (upper, work) = (part("u")?, part("w")?);
    // The root shows the upper's times.
    set_fixed_times(tmpfs.as_fd(), "u", AtFlags::empty())?;
    let overlay = Filesystem::open(c"overlay")?;
    for layer in layers.iter().rev() {
        overlay.set_fd(
            c"lowerdir+",
            open(*layer, DIRECTORY, Mode::empty())?.as_fd(),
        )?;
    }
    overlay.set_fd(c"upperdir", upper.as_fd())?;
    overlay.set_fd(c"workdir", work.as_fd())?;
    Ok(overlay.mount(NODEV)?)
}
