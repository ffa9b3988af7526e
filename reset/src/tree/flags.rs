//! Inode flags.

/// The inode flags that count, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// `chattr +i`.
    pub const IMMUTABLE: u8 = 1;
    /// `chattr +a`.
    pub const APPEND: u8 = 2;
    /// `chattr +d`.
    pub const NODUMP: u8 = 4;
    /// `chattr +A`.
    pub const NOATIME: u8 = 8;

    /// The letters of `lsattr`, or `-` for none.
    pub fn letters(self) -> String {
        let named = [
            (Self::IMMUTABLE, 'i'),
            (Self::APPEND, 'a'),
            (Self::NODUMP, 'd'),
            (Self::NOATIME, 'A'),
        ];
        let set: String = named
            .iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .map(|(_, c)| *c)
            .collect();
        if set.is_empty() { "-".into() } else { set }
    }
}
