//! Drawing arguments.

use innkeeper_test_script::{Shape, Word};

use crate::World;
use crate::dice::Dice;

/// Paths of the image that one script keeps coming back to: operations that meet on one file do
/// more than operations on files apart.
const FAVOURITES: usize = 6;

/// Paths that are in every sandbox and worth a try.
const SPECIAL: [&str; 14] = [
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/ld.so.preload",
    "/dev/null",
    "/dev/shm/x",
    "/dev/mqueue/x",
    "/proc/self/exe",
    "/proc/self/fd/0",
    "/proc/1/root/etc/passwd",
    "/tmp",
    "/nothing/here",
];

/// Beginnings of names.
const STEMS: [&str; 8] = [
    "a",
    "new",
    ".hidden",
    "two words",
    "-rf",
    "core",
    ".wh.a",
    "x",
];

/// Argument words for one script.
pub(super) struct Words<'a> {
    world: &'a World,
    files: Vec<&'a [u8]>,
    directories: Vec<&'a [u8]>,
    /// Paths that the script has made up so far.
    made: Vec<Vec<u8>>,
}

impl<'a> Words<'a> {
    pub(super) fn new(dice: &mut Dice, world: &'a World) -> Self {
        let mut some = |of: &'a [Vec<u8>]| {
            (0..FAVOURITES)
                .filter_map(|_| dice.one(of))
                .map(Vec::as_slice)
                .collect()
        };
        Self {
            files: some(&world.files),
            directories: some(&world.directories),
            world,
            made: Vec::new(),
        }
    }

    /// A word of a shape.
    pub(super) fn word(&mut self, dice: &mut Dice, shape: Shape) -> Word {
        match shape {
            Shape::Path => Word::new(self.path(dice)),
            Shape::Directory => Word::new(self.directory(dice)),
            Shape::Fresh => Word::new(self.fresh(dice)),
            Shape::Name => Word::new(name(dice)),
            Shape::Text => Word::new(text(dice)),
            Shape::Mode => {
                let modes = [
                    "0", "0644", "0755", "0700", "0777", "1777", "4755", "2755", "6777", "0111",
                    "7777",
                ];
                Word::from(*dice.one(&modes).unwrap_or(&"0"))
            }
            Shape::Number(low, high) => Word::from(dice.between(low, high)),
            Shape::OneOf(words) => Word::from(dice.one(words).copied().unwrap_or_default()),
        }
    }

    fn path(&self, dice: &mut Dice) -> Vec<u8> {
        let known: Option<&[u8]> = match dice.below(100) {
            0..50 => dice.one(&self.files).copied(),
            50..60 => dice.one(&self.world.files).map(Vec::as_slice),
            60..70 => dice.one(&self.directories).copied(),
            70..90 => dice.one(&self.made).map(Vec::as_slice),
            _ => None,
        };
        known.map_or_else(|| special(dice), <[u8]>::to_vec)
    }

    fn directory(&self, dice: &mut Dice) -> Vec<u8> {
        let known: Option<&[u8]> = match dice.below(100) {
            0..60 => dice.one(&self.directories).copied(),
            60..70 => dice.one(&self.world.directories).map(Vec::as_slice),
            70..90 => dice.one(&self.made).map(Vec::as_slice),
            90..95 => Some(b"/tmp"),
            _ => None,
        };
        known.map_or_else(|| special(dice), <[u8]>::to_vec)
    }

    /// A path that is mostly new, in a directory that mostly is not.
    fn fresh(&mut self, dice: &mut Dice) -> Vec<u8> {
        match dice.below(100) {
            0..10 => return self.path(dice),
            10..20 => {
                if let Some(again) = dice.one(&self.made) {
                    return again.clone();
                }
            }
            _ => {}
        }
        let mut path = self.directory(dice);
        path.push(b'/');
        path.extend(name(dice));
        self.made.push(path.clone());
        path
    }
}

fn special(dice: &mut Dice) -> Vec<u8> {
    dice.one(&SPECIAL).unwrap_or(&"/").as_bytes().to_vec()
}

/// A name without a slash, mostly short, now and then as odd as a kernel takes.
fn name(dice: &mut Dice) -> Vec<u8> {
    let mut name = dice.one(&STEMS).unwrap_or(&"a").as_bytes().to_vec();
    match dice.below(12) {
        0 => name.resize(255, b'n'),
        1 => name.extend([0xff, 0xfe, b'\n', 0x80]),
        2 => name.extend("\u{e9}\u{4e2d}".bytes()),
        3 => name.extend(b"\t\\#'\""),
        _ => name.extend(dice.below(30).to_string().into_bytes()),
    }
    name
}

fn text(dice: &mut Dice) -> Vec<u8> {
    match dice.below(5) {
        0 => b"y".to_vec(),
        1 => vec![0xff; 16],
        2 => vec![b't'; 3000],
        _ => name(dice),
    }
}
