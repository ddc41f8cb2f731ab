//! The workloads of the allocators, and the programs that run them.
//!
//! Each allocator is the global allocator of its own program (`src/bin/alloc-*.rs`). So no
//! allocator is inlined into a workload, and no allocator finds memory that another one left. For
//! each run the harness (`layers/alloc.rs`) starts such a program, which does one workload once and
//! prints the results.
//!
//! [`WORKLOADS`] has the function of each workload, and the comment of the function describes it.
//! An operation is a pair, an allocation and its release, unless the comment says otherwise. Most
//! workloads follow the field's suite (mimalloc-bench). They were written from what the originals
//! do, not from their sources, so their figures are not comparable with published ones.

mod block;
mod cubes;
mod heaps;
mod lines;
mod memory;
mod numbers;
mod own;
mod passing;
mod random;
mod shared;
pub mod summary;
mod vectors;

use std::process::ExitCode;

use crate::workers::Sample;

/// The figures that a program prints after its time, besides the page faults. All except the last
/// two are in MiB.
pub const FIGURES: [&str; 6] = [
    BASE_MIB,
    PEAK_MIB,
    LEFT_MIB,
    IDLE_MIB,
    "page faults",
    "system ms",
];
/// Resident before the workload.
pub const BASE_MIB: &str = "base MiB";
/// Maximum of the resident memory.
pub const PEAK_MIB: &str = "peak MiB";
/// Resident when all blocks are freed and the threads have ended.
pub const LEFT_MIB: &str = "left MiB";
/// Resident after a call that tells the allocator to return memory.
pub const IDLE_MIB: &str = "idle MiB";

/// One workload.
pub struct Workload {
    /// Its name, by which the harness asks for it.
    pub name: &'static str,
    /// Operations of a run.
    pub ops: u64,
    /// Operations of a run under `--smoke`.
    pub smoke_ops: u64,
    run: fn(u64) -> Sample,
}

const fn workload(
    name: &'static str,
    ops: u64,
    smoke_ops: u64,
    run: fn(u64) -> Sample,
) -> Workload {
    Workload {
        name,
        ops,
        smoke_ops,
        run,
    }
}

/// All workloads: those of one thread first.
pub const WORKLOADS: &[Workload] = &[
    workload("64-byte pair", 20_000_000, 1000, own::pairs),
    workload("random-order batch", 12_000_000, 1000, own::batches),
    workload("cfrac", 12_000_000, 1000, numbers::factor),
    workload("espresso", 8_000_000, 1000, cubes::complements),
    workload("alloc-test", 8_000_000, 1000, own::table),
    workload("glibc-simple", 4_000_000, 1000, own::simple),
    workload(
        "vector growth to a million",
        40_000_000,
        1000,
        vectors::long,
    ),
    workload(
        "vector growth to a thousand",
        100_000_000,
        1000,
        vectors::short,
    ),
    workload("string growth", 20_000_000, 1000, vectors::strings),
    workload("blocks of 8 to 200 KiB", 200_000, 1000, own::wide),
    workload("producer and consumer", 6_000_000, 1000, passing::one_way),
    workload("blocks of 2 MiB passed on", 3000, 20, passing::long_blocks),
    workload("larson-like", 12_000_000, 1000, passing::swapped),
    workload("larson", 6_000_000, 1000, passing::handed_on),
    workload("xmalloc", 6_000_000, 1000, passing::both_ways),
    workload("sh6bench", 20_000_000, 1000, shared::batches),
    workload("sh8bench", 8_000_000, 1000, shared::batches_swapped),
    workload("mstress", 3_000_000, 1000, shared::stress),
    workload("rptest", 2_000_000, 1000, shared::lists),
    workload("glibc-thread", 8_000_000, 1000, own::simple_threads),
    workload("cache-scratch", 1_600_000, 1000, lines::scratch),
    workload("cache-thrash", 1_600_000, 1000, lines::thrash),
];

/// Work that may depend on the number of heaps: its name, its operations in a run, and those under
/// `--smoke`. Each is two workloads, `NAME FEW` and `NAME MANY`.
pub const HEAPS: &[(&str, u64, u64)] = &[
    ("heaps, a block at a new peak", 300, 20),
    ("heaps, a thread with its first block", 300, 20),
    ("heaps, p99.9 of a span", 200_000, 2000),
];
/// Number of threads with a heap in the workload `NAME MANY`.
pub const MANY: usize = 10_000;
/// Number of threads with a heap in the workload `NAME FEW`.
pub const FEW: usize = 100;

type Run = Box<dyn Fn(u64) -> Sample>;

/// The work of a name that begins with one of [`HEAPS`], and ends with the number of threads.
fn heaps(name: &str) -> Option<Run> {
    let (name, threads) = name.rsplit_once(' ')?;
    let threads: usize = threads.parse().ok()?;
    let works: [fn(u64) -> Sample; 3] = [heaps::peak, heaps::first, heaps::span];
    let index = HEAPS.iter().position(|heaps| heaps.0 == name)?;
    Some(Box::new(move |ops| {
        heaps::among(threads, || works[index](ops))
    }))
}

/// The work of a name.
fn work(name: &str) -> Option<Run> {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name);
    let run = workload.map(|workload| Box::new(workload.run) as Run);
    run.or_else(|| heaps(name))
}

/// The main function of a program: `alloc-* WORKLOAD OPS`.
///
/// `collect` tells the program's allocator to return memory to the system.
pub fn program(collect: fn()) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().and_then(|name| work(&name));
    let ops = arguments.next().and_then(|ops| ops.parse().ok());
    let (Some(run), Some(ops)) = (run, ops) else {
        eprintln!("usage: alloc-* WORKLOAD OPERATIONS; started by rast-benches");
        return ExitCode::FAILURE;
    };
    let base = memory::resident();
    let sample = run(ops);
    let peak = memory::peak();
    let left = memory::resident();
    let usage = memory::usage();
    collect();
    let idle = memory::resident();
    println!("{} {}", sample.done, sample.elapsed.as_nanos());
    let figures = [
        base,
        peak,
        left,
        idle,
        usage.map(|of| of.0),
        usage.map(|of| of.1),
    ];
    for (name, figure) in FIGURES.iter().zip(figures) {
        if let Some(figure) = figure {
            println!("{name}={figure}");
        }
    }
    ExitCode::SUCCESS
}

/// Parses the output of a program.
///
/// # Errors
///
/// A text that contains the output, if [`program`] did not print this output.
pub fn parse(output: &str) -> Result<Sample, String> {
    let strange = || format!("not the output of a workload: {output}");
    let mut lines = output.lines();
    let (done, ns) = lines
        .next()
        .and_then(|line| line.split_once(' '))
        .ok_or_else(strange)?;
    let done = done.parse().map_err(|_| strange())?;
    let ns = ns.parse().map_err(|_| strange())?;
    let mut sample = Sample::new(done, std::time::Duration::from_nanos(ns));
    for line in lines {
        let (name, value) = line.split_once('=').ok_or_else(strange)?;
        let value = value.parse().map_err(|_| strange())?;
        let name = FIGURES.iter().find(|known| **known == name);
        sample = sample.with(name.ok_or_else(strange)?, value);
    }
    Ok(sample)
}

/// Makes a program of an allocator: `allocator_program!(System: System, collect)`.
#[macro_export]
macro_rules! allocator_program {
    ($type:ty: $allocator:expr, $collect:expr) => {
        #[global_allocator]
        static ALLOCATOR: $type = $allocator;

        fn main() -> std::process::ExitCode {
            $crate::allocators::program($collect)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_does_what_it_is_asked() {
        for workload in WORKLOADS {
            let sample = (workload.run)(workload.smoke_ops);
            assert!(sample.done >= workload.smoke_ops / 2, "{}", workload.name);
        }
    }

    #[test]
    fn names_are_apart() {
        for (index, workload) in WORKLOADS.iter().enumerate() {
            let others = &WORKLOADS[index + 1..];
            assert!(others.iter().all(|other| other.name != workload.name));
        }
    }

    #[test]
    fn the_output_of_a_program_is_read() {
        let sample = parse("10 50\npeak MiB=2.5\n").unwrap();
        assert_eq!((sample.done, sample.ns_per_op()), (10, 5.0));
        assert_eq!(sample.extras, [(PEAK_MIB, 2.5)]);
        for wrong in ["", "10", "10 x", "10 5\nwhat=1", "10 5\npeak MiB=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
