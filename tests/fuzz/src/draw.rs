//! Drawing a script.

mod weight;
mod words;

use innkeeper_test_script::{Operation, Script};

use crate::World;
use crate::dice::Dice;
use weight::Bag;
use words::Words;

/// The script of one iteration of one seed, in a world.
pub fn draw(seed: u64, iteration: u64, world: &World) -> Script {
    let mut dice = Dice::of(seed, iteration);
    let bag = Bag::new();
    let mut words = Words::new(&mut dice, world);
    let length = length(&mut dice);
    let operations = (0..length).filter_map(|_| {
        let verb = bag.verb(&mut dice)?;
        let arguments = verb
            .shapes
            .iter()
            .map(|shape| words.word(&mut dice, *shape));
        Operation::new(verb, arguments.collect())
    });
    Script {
        operations: operations.collect(),
    }
}

/// Most are short: what a few operations can do is found quickly, and needs little cutting down.
fn length(dice: &mut Dice) -> u64 {
    match dice.below(10) {
        0..=5 => 1 + dice.below(6),
        6..=8 => 6 + dice.below(14),
        _ => 20 + dice.below(40),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use innkeeper_test_script::{Kind, verbs};

    use super::*;

    fn world() -> World {
        World {
            files: vec![b"/etc/passwd".to_vec(), b"/bin/sh".to_vec()],
            directories: vec![b"/".to_vec(), b"/etc".to_vec(), b"/tmp".to_vec()],
        }
    }

    #[test]
    fn a_script_follows_from_its_seed_and_reads_as_it_is_written() {
        for iteration in 0..500 {
            let script = draw(7, iteration, &world());
            assert_eq!(script, draw(7, iteration, &world()));
            assert_eq!(Script::parse(&script.to_string()), Ok(script));
        }
        assert_ne!(draw(7, 1, &world()), draw(8, 1, &world()));
    }

    #[test]
    fn every_verb_is_drawn() {
        let mut drawn: BTreeMap<&str, u32> = BTreeMap::new();
        let mut kinds: BTreeMap<Kind, u32> = BTreeMap::new();
        for iteration in 0..1500 {
            for operation in draw(1, iteration, &world()).operations {
                *drawn.entry(operation.verb().name).or_default() += 1;
                *kinds.entry(operation.verb().kind).or_default() += 1;
            }
        }
        let missing: Vec<_> = verbs()
            .filter(|verb| !drawn.contains_key(verb.name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        println!("operations by kind in 1500 scripts: {kinds:?}");
    }

    #[test]
    fn an_empty_image_can_be_worked_on() {
        for iteration in 0..100 {
            draw(1, iteration, &World::default());
        }
    }
}
