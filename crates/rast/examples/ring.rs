//! Two threads and a bounded ring between them: batches, back-pressure, and a clean end.
//!
//! `cargo run --release --example ring`

use std::thread;

use rast::primitive::Backoff;
use rast::queue::spsc;

const NUMBERS: u64 = 1_000_000;

fn main() {
    // One allocation, here; none later. A ring has exactly one producer and one consumer: neither
    // half can be cloned, and both may move to another thread.
    let (mut producer, mut consumer) = spsc::ring::<u64>(256);

    let sender = thread::spawn(move || {
        let mut numbers = (1..=NUMBERS).peekable();
        let backoff = Backoff::new();
        while numbers.peek().is_some() {
            // Takes as many as there is room for and publishes them with one store.
            if producer.push_batch(&mut numbers) == 0 {
                backoff.snooze(); // full: the consumer is behind
            } else {
                backoff.reset();
            }
        }
        // Dropping the producer closes the ring; what is in it stays.
    });

    let mut sum = 0;
    let mut batches = 0_u64;
    let backoff = Backoff::new();
    // Finished: the producer is gone and everything has been taken.
    while !consumer.is_finished() {
        if consumer.pop_batch(64, |number| sum += number) == 0 {
            backoff.snooze(); // empty: the producer is behind
        } else {
            batches += 1;
            backoff.reset();
        }
    }
    sender.join().expect("the sender does not panic");

    assert_eq!(sum, NUMBERS * (NUMBERS + 1) / 2);
    println!("{NUMBERS} numbers in {batches} batches, sum {sum}");
}
