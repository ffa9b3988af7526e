//! Bytes that are nearly right.

/// Changes seeds in ways that follow from a number: cutting, repeating, swapping parts between
/// seeds, and setting single bytes and words to what is on the edge.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
    seeds: Vec<Vec<u8>>,
}

/// Longest bytes that are made.
const MOST: usize = 64 * 1024;

/// Words on edges.
const EDGES: [u64; 8] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX >> 1,
    u64::MAX,
];

impl Mutator {
    /// A mutator of these seeds, which are some.
    pub fn new(number: u64, seeds: Vec<Vec<u8>>) -> Self {
        Self {
            state: number,
            seeds,
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or_default()
    }

    fn seed(&mut self) -> Vec<u8> {
        let index = self.below(self.seeds.len());
        self.seeds.get(index).cloned().unwrap_or_default()
    }

    /// The next bytes.
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = self.seed();
        for _ in 0..1 + self.below(6) {
            self.change(&mut bytes);
            bytes.truncate(MOST);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let (from, to) = (self.below(bytes.len() + 1), self.below(bytes.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match self.below(8) {
            0 => bytes.truncate(to),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let part = bytes[from..to].to_vec();
                bytes.splice(from..from, part);
            }
            3 => {
                let other = self.seed();
                let start = self.below(other.len() + 1);
                let part = other[start..]
                    .iter()
                    .take(to - from)
                    .copied()
                    .collect::<Vec<_>>();
                bytes.splice(from..to, part);
            }
            4 => {
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                for (place, byte) in bytes.iter_mut().skip(from).zip(&edge[..width]) {
                    *place = *byte;
                }
            }
            5 => {
                let byte = self.next() as u8;
                bytes.insert(from, byte);
            }
            _ => {
                let bit = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= bit;
                }
            }
        }
    }
}
