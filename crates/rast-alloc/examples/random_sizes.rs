//! How much memory a program holds that replaces values of random sizes for a while, over what it
//! has asked for.
//!
//! ```sh
//! cargo run --release -p rast-alloc --example random_sizes -- 300
//! ```
//!
//! Two threads keep 64 MiB of values each, of 16 bytes to 64 KiB, each doubling as likely. They
//! replace values at random for so many seconds, 10 if none are given. One line is printed for each
//! tenth of the time.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use rast_alloc::RastAlloc;
use rast_alloc::primitive::Random;

#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Bytes that a thread keeps.
const KEPT: usize = 64 << 20;

/// A number of 16 to 65,536, each doubling as likely.
fn size(random: &mut Random) -> usize {
    let doubling = 16 << random.below(12);
    doubling + random.below(doubling)
}

/// Replaces values until `end`.
fn replace(seed: u64, end: Instant) {
    let mut random = Random::new(seed);
    let (mut values, mut bytes) = (Vec::new(), 0);
    while Instant::now() < end {
        for _ in 0..1000 {
            let value = vec![1_u8; size(&mut random)];
            bytes += value.len();
            values.push(value);
            while bytes > KEPT {
                let value = values.swap_remove(random.below(values.len()));
                bytes -= value.len();
            }
        }
    }
}

/// Bytes that the process has in memory.
fn resident() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no figure of the system")?.parse::<usize>()? * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |arg| arg.parse())?;
    let start = Instant::now();
    let length = Duration::from_secs(seconds);
    // A little longer, so that the last line is printed while they work.
    let end = start + length + Duration::from_millis(500);
    let threads = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]
        .map(|seed| thread::spawn(move || replace(seed, end)));
    for tenth in 1..=10 {
        thread::sleep((start + length * tenth / 10).saturating_duration_since(Instant::now()));
        let (resident, used) = (resident()?, RastAlloc::stats().bytes_current);
        println!(
            "after {:?}: {} MiB resident, {} MiB in use, {:.3}",
            length * tenth / 10,
            resident >> 20,
            used >> 20,
            resident as f64 / used as f64,
        );
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}
