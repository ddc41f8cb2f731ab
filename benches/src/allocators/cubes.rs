//! espresso: mixed small objects, the cubes of a logic minimiser.
//!
//! A cube is a product of literals. It has two bits for each variable: whether the variable may be
//! 0, and whether it may be 1. A cover is a list of cubes. The program complements random covers by
//! Shannon's expansion, which makes and drops covers at each level.

use std::cell::Cell;

use super::random::Random;
use crate::workers::{Sample, alone};

type Cube = Box<[u64]>;
type Cover = Vec<Cube>;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// Variables in use. Further variables only make the cubes longer; no cube restricts them.
const VARIABLES: usize = 10;

/// Cubes of so many words.
struct Logic {
    words: usize,
}

impl Logic {
    fn universe(&self) -> Cube {
        MADE.set(MADE.get() + 1);
        vec![u64::MAX; self.words].into_boxed_slice()
    }

    /// The cube with the variable set to `value`; `None` if the cube excludes this value.
    fn bind(&self, cube: &Cube, variable: usize, value: usize) -> Option<Cube> {
        let (word, bits) = place(self.words, variable);
        let wanted = 1 << (bits + value);
        if cube[word] & wanted == 0 {
            return None;
        }
        MADE.set(MADE.get() + 1);
        let mut bound = cube.clone();
        bound[word] = bound[word] & !(3 << bits) | wanted;
        Some(bound)
    }

    /// The cover if the variable is `value`: the cubes that allow this value, without the variable.
    fn cofactor(&self, cover: &Cover, variable: usize, value: usize) -> Cover {
        let (word, bits) = place(self.words, variable);
        let mut part = Cover::new();
        for cube in cover {
            if cube[word] >> (bits + value) & 1 == 1 {
                MADE.set(MADE.get() + 1);
                let mut free = cube.clone();
                free[word] |= 3 << bits;
                part.push(free);
            }
        }
        part
    }

    /// The variable that most cubes restrict; `None` if no cube restricts one.
    fn bound_most(&self, cover: &Cover) -> Option<usize> {
        let binds = |variable: usize| {
            let (word, bits) = place(self.words, variable);
            cover
                .iter()
                .filter(|cube| cube[word] >> bits & 3 != 3)
                .count()
        };
        (0..VARIABLES)
            .map(|variable| (binds(variable), variable))
            .max()
            .filter(|most| most.0 > 0)
            .map(|most| most.1)
    }

    fn complement(&self, cover: &Cover) -> Cover {
        if cover.is_empty() {
            return vec![self.universe()];
        }
        // A cube that restricts no variable covers everything, and so does each of its cofactors.
        let free = |cube: &Cube| cube.iter().all(|word| *word == u64::MAX);
        if cover.iter().any(free) {
            return Cover::new();
        }
        let Some(variable) = self.bound_most(cover) else {
            return Cover::new();
        };
        let halves = [0, 1].map(|value| self.complement(&self.cofactor(cover, variable, value)));
        let mut merged = Cover::new();
        let [zero, mut one] = halves;
        for cube in zero {
            // Cubes that are in both halves need no literal of the variable.
            match one.iter().position(|other| *other == cube) {
                Some(same) => merged.push(one.swap_remove(same)),
                None => merged.extend(self.bind(&cube, variable, 0)),
            }
        }
        merged.extend(one.iter().filter_map(|cube| self.bind(cube, variable, 1)));
        merged
    }

    fn random(&self, random: &mut Random, cubes: usize) -> Cover {
        (0..cubes)
            .map(|_| {
                let mut cube = self.universe();
                for _ in 0..4 {
                    let (word, bits) = place(self.words, random.below(VARIABLES));
                    cube[word] = cube[word] & !(3 << bits) | 1 << (bits + random.below(2));
                }
                cube
            })
            .collect()
    }
}

/// Position of the two bits of a variable.
fn place(words: usize, variable: usize) -> (usize, usize) {
    (variable % words, variable / words * 2)
}

/// Complements covers of 4 to 23 cubes of 8 to 64 bytes, and keeps some of them for a while. An
/// operation is the making of a cube.
pub(super) fn complements(ops: u64) -> Sample {
    alone(|| {
        let before = MADE.get();
        let mut random = Random::new(0);
        let mut kept: Vec<Cover> = Vec::new();
        while MADE.get() - before < ops {
            let logic = Logic {
                words: random.between(1, 8),
            };
            let cubes = random.between(4, 23);
            let cover = logic.random(&mut random, cubes);
            let complement = logic.complement(&cover);
            if kept.len() < 64 {
                kept.push(complement);
            } else {
                kept[random.below(64)] = complement;
            }
        }
        MADE.get() - before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the cover holds at the point whose bits are the variables.
    fn holds(cover: &Cover, words: usize, point: usize) -> bool {
        cover.iter().any(|cube| {
            (0..VARIABLES).all(|variable| {
                let (word, bits) = place(words, variable);
                cube[word] >> (bits + (point >> variable & 1)) & 1 == 1
            })
        })
    }

    #[test]
    fn a_complement_holds_where_the_cover_does_not() {
        let mut random = Random::new(1);
        for words in [1, 3, 8] {
            let logic = Logic { words };
            let cover = logic.random(&mut random, 8);
            let complement = logic.complement(&cover);
            for point in 0..1 << VARIABLES {
                assert_ne!(
                    holds(&cover, words, point),
                    holds(&complement, words, point)
                );
            }
        }
    }
}
