//! An import's progress on a terminal; nothing elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use innkeeper_images::{Progress, Step};

/// The bar of one import: bytes of the layer that is read, and which layer it is.
#[derive(Debug)]
pub(super) struct Shown {
    bar: ProgressBar,
    layers: usize,
}

impl Shown {
    /// A bar that appears with the first step.
    pub(super) fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) =
            ProgressStyle::with_template("{msg}  {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}")
        {
            bar.set_style(style);
        }
        Self { bar, layers: 0 }
    }

    /// The import has ended; the bar goes.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn name(&self, index: usize, state: &str) {
        self.bar
            .set_message(format!("layer {} of {}: {state}", index + 1, self.layers));
    }
}

impl Progress for Shown {
    fn step(&mut self, step: Step) {
        match step {
            Step::Layers { total } => self.layers = total,
            Step::Shared { index, .. } => self.name(index, "there already"),
            Step::Reading { index, done, total } => {
                self.name(index, "reading");
                if let Some(total) = total {
                    self.bar.set_length(total);
                }
                self.bar.set_position(done);
            }
            Step::Unpacked { index, .. } => self.name(index, "complete"),
            // The store may tell more than is shown.
            _ => {}
        }
    }
}
