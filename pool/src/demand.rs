//! How many sandboxes a class needed at once, lately.

use crate::ids::Millis;
use std::collections::VecDeque;

/// Pieces that the remembered time is cut into.
const PIECES: u64 = 16;

/// The peak of a changing number within a sliding window, to a sixteenth of the window.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    now: u32,
    pieces: VecDeque<(u64, u32)>,
}

impl Peak {
    /// The number is `value` from `now` on.
    pub(crate) fn note(&mut self, now: Millis, window_ms: u64, value: u32) {
        let piece = now / (window_ms / PIECES).max(1);
        let high = self.now.max(value);
        match self.pieces.back_mut() {
            Some((last, peak)) if *last >= piece => *peak = (*peak).max(high),
            Some(_) | None => self.pieces.push_back((piece, high)),
        }
        self.now = value;
        while self
            .pieces
            .front()
            .is_some_and(|(first, _)| first + PIECES < piece)
        {
            self.pieces.pop_front();
        }
    }

    /// The peak within the window before `now`.
    pub(crate) fn peak(&self, now: Millis, window_ms: u64) -> u32 {
        let piece = now / (window_ms / PIECES).max(1);
        let within = self.pieces.iter().filter(|(at, _)| at + PIECES >= piece);
        within
            .map(|(_, peak)| *peak)
            .max()
            .unwrap_or(0)
            .max(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::Peak;

    #[test]
    fn a_peak_is_remembered_for_the_window_and_a_level_for_ever() {
        let mut peak = Peak::default();
        peak.note(0, 1600, 5);
        peak.note(100, 1600, 2);
        assert_eq!(peak.peak(1600, 1600), 5);
        assert_eq!(peak.peak(1900, 1600), 2);
        assert_eq!(peak.peak(1_000_000, 1600), 2);
    }

    #[test]
    fn a_level_that_ends_counts_until_its_end() {
        let mut peak = Peak::default();
        peak.note(0, 1600, 9);
        peak.note(50_000, 1600, 0);
        assert_eq!(peak.peak(51_000, 1600), 9);
        assert_eq!(peak.peak(52_000, 1600), 0);
    }
}
