//! Vectors and strings that grow one element at a time.

use std::hint::black_box;

use crate::workers::{Sample, alone};

/// Vectors of words that grow to a million each. An operation is a push.
pub(super) fn long(ops: u64) -> Sample {
    alone(|| grow(ops, 1_000_000))
}

/// Vectors of words that grow to a thousand each. An operation is a push.
pub(super) fn short(ops: u64) -> Sample {
    alone(|| grow(ops, 1000))
}

fn grow(ops: u64, length: u64) -> u64 {
    let mut done = 0;
    while done < ops {
        let mut words = Vec::new();
        for word in 0..length {
            words.push(word);
        }
        done += length;
        black_box(&words);
    }
    done
}

/// Sixteen strings, to which the thread appends 7 bytes in turn, up to 50,000 bytes each. An
/// operation is one append.
pub(super) fn strings(ops: u64) -> Sample {
    const LENGTH: usize = 50_000;
    alone(|| {
        let mut done = 0;
        while done < ops {
            let mut texts = vec![String::new(); 16];
            while texts[0].len() < LENGTH {
                for text in &mut texts {
                    text.push_str(black_box("letters"));
                }
                done += 16;
            }
            black_box(&texts);
        }
        done
    })
}
