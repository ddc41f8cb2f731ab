//! rast-alloc: `RastAlloc` and its rivals, each as the global allocator of a process of its own.
//!
//! The workloads are in [`crate::allocators`]. Here a run of a contender is a process that does one
//! workload once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::allocators::{FEW, HEAPS, MANY, WORKLOADS, parse};
use crate::harness::Scenario;
use crate::options::Options;
use crate::workers::Sample;

/// The layer's name, by which the summary finds its outcomes.
pub(crate) const LAYER: &str = "alloc";

/// The name in the tables of our allocator that detects misuse.
pub(crate) const HARDENED: &str = "RastAlloc hardened";

/// The rivals, as the tables name them and by the names of their programs.
const RIVALS: [(&str, &str); 4] = [
    ("std System", "alloc-system"),
    ("mimalloc", "alloc-mimalloc"),
    ("snmalloc", "alloc-snmalloc"),
    ("jemalloc", "alloc-jemalloc"),
];

/// The scenarios of this layer: each workload with ours and those rivals whose programs are built.
pub(crate) fn scenarios(options: &Options) -> Vec<Scenario> {
    let programs = programs(options);
    let among_heaps = HEAPS.iter().map(|&(name, ops, smoke_ops)| {
        let ours = program(&programs, "alloc-rast");
        let [few, many] = [FEW, MANY].map(|threads| {
            let (ours, name) = (ours.clone(), format!("{name} {threads}"));
            move |ops| run(&ours, &name, ops)
        });
        Scenario::new(LAYER, name, ops, smoke_ops)
            .ours("10,000 threads", many)
            .ours("100 threads", few)
    });
    let workloads = WORKLOADS.iter().map(|workload| {
        let name = workload.name;
        let ours = program(&programs, "alloc-rast");
        let mut scenario = Scenario::new(LAYER, name, workload.ops, workload.smoke_ops)
            .ours("RastAlloc", move |ops| run(&ours, name, ops));
        let hardened = program(&programs, "alloc-hardened");
        if hardened.exists() {
            scenario = scenario.ours(HARDENED, move |ops| run(&hardened, name, ops));
        }
        for (rival, file) in RIVALS {
            let file = program(&programs, file);
            if file.exists() {
                scenario = scenario.rival(rival, move |ops| run(&file, name, ops));
            }
        }
        scenario
    });
    workloads.chain(among_heaps).collect()
}

/// Those rivals whose programs are not built, for the report.
pub(crate) fn not_built(options: &Options) -> Vec<&'static str> {
    let programs = programs(options);
    RIVALS
        .into_iter()
        .filter(|(_, file)| !program(&programs, file).exists())
        .map(|(rival, _)| rival)
        .collect()
}

/// Directory of the programs: that of the option, or that of this program.
fn programs(options: &Options) -> PathBuf {
    options.programs.clone().unwrap_or_else(|| {
        let this = std::env::current_exe().expect("the system tells where a program stands");
        this.parent().map(Path::to_path_buf).unwrap_or_default()
    })
}

fn program(programs: &Path, name: &str) -> PathBuf {
    programs.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Runs a workload once, in a process of its own.
fn run(program: &Path, workload: &str, ops: u64) -> Sample {
    let output = Command::new(program)
        .args([workload, &ops.to_string()])
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo xtask bench` builds it",
                program.display()
            )
        });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{} {workload}: {}: {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
    parse(&text).unwrap_or_else(|wrong| panic!("{} {workload}: {wrong}", program.display()))
}
