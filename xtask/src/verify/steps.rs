//! The steps that are no commands of their own.

use super::outcome::Outcome;
use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::{Package, Workspace};
use crate::programs::Program;
use crate::{Result, programs, shuttle, tidy, tree, variant, weak};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether searches take minutes.
pub(super) static IS_FULL: AtomicBool = AtomicBool::new(false);

pub(super) fn is_full() -> bool {
    IS_FULL.load(Ordering::Relaxed)
}

/// Whether tests in modules named `long` are left out.
pub(super) static IS_QUICK: AtomicBool = AtomicBool::new(false);

pub(super) fn done(result: Result) -> Result<Outcome> {
    result.map(|()| Outcome::Passed(Tests::default()))
}

pub(super) fn counted(result: Result<Tests>) -> Result<Outcome> {
    result.map(Outcome::Passed)
}

/// `cargo LINE`.
fn line(line: &str) -> Cmd {
    Cmd::cargo().words(line)
}

pub(super) fn cargo(words: &str) -> Result<Outcome> {
    done(line(words).run())
}

/// A command that told its faults itself.
pub(super) fn checked(name: &str, result: Result<bool>) -> Result<Outcome> {
    match result? {
        true => done(Ok(())),
        false => Err(format!("{name} found faults; they are listed above")),
    }
}

/// The unit and integration tests with all features, the examples that some of them start, and the
/// clients. One command builds all of them, because Cargo chooses the features of outside crates
/// per command, and would build these crates again.
pub(crate) const BUILD: &str = "build --workspace --all-features --tests --examples --bin clients";

/// Builds all that runs without debug assertions: the demos, the benches and the tests of the step
/// `stress`. One command builds them for the same reason.
const SMOKE: &str = "build --profile smoke -p rast -p rast-benches -p rast-msgpass \
     -p rast-conflate --features rast/io --example kv --example adserver \
     --bin rast-benches --bin alloc-rast --test stress --test above_capacity";

/// Builds what [`SMOKE`] names; returns the directory of the programs.
pub(crate) fn smoke_programs() -> Result<PathBuf> {
    line(SMOKE).run()?;
    Ok(Workspace::load(tree::root())?.target_dir.join("smoke"))
}

/// The example `name`, of those that were built in `dir`.
pub(crate) fn example(dir: &Path, name: &str) -> Cmd {
    program(&dir.join("examples"), name)
}

/// The program `name` of `dir`.
fn program(dir: &Path, name: &str) -> Cmd {
    Cmd::new(
        dir.join(name)
            .with_extension(std::env::consts::EXE_EXTENSION),
    )
}

/// The tests of the plain allocator. With all features the allocator is hardened. Then it keeps no
/// mappings, and has no blocks of 8 bytes.
const PLAIN: &str = "build -p rast-alloc --tests";

/// Builds what the steps `tests`, `examples`, `doc tests` and `clients` run.
pub(super) fn build() -> Result<Outcome> {
    let built = programs::build(line(BUILD))?.len();
    println!("{}", tidy::count(built, "test program"));
    done(Ok(()))
}

/// Unit and integration tests.
pub(super) fn tests() -> Result<Outcome> {
    let skipped: &[_] = match IS_QUICK.load(Ordering::Relaxed) {
        true => &["--skip", "long::"],
        false => &[],
    };
    counted(programs::test([line(BUILD)], &[], skipped))
}

/// Those of the plain allocator.
pub(super) fn plain_tests() -> Result<Outcome> {
    counted(programs::test([line(PLAIN)], &[], &[]))
}

/// The examples in docs, with all features.
pub(super) fn doc_tests() -> Result<Outcome> {
    counted(line("test --workspace --all-features --no-fail-fast --doc").count())
}

/// Those of the plain allocator, as all features harden it.
pub(super) fn plain_doc_tests() -> Result<Outcome> {
    counted(line("test -p rast-alloc --no-fail-fast --doc").count())
}

pub(super) fn rustdoc() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    let command = checks("doc --workspace --no-deps --all-features", &workspace);
    done(command.env("RUSTDOCFLAGS", "-D warnings").run())
}

/// The tests that `lines` name, under a private cfg.
fn under(cfg: &str, lines: &[&str]) -> Result<Outcome> {
    let commands: Result<Vec<Cmd>> = lines.iter().map(|line| variant::cargo(cfg, line)).collect();
    counted(programs::test(commands?, &[], &[]))
}

/// The allocator as it is built where the system is not unix.
pub(super) fn system_segments() -> Result<Outcome> {
    under(
        "rast_system_segments",
        &[
            "test --no-run -p rast-alloc --lib --tests",
            // And so hardened, where nothing guards a page.
            "test --no-run -p rast-alloc --features hardened --lib --test api --test exchange \
             --test misuse --test model --test shared_heap",
        ],
    )
}

/// The two forms of the tagged pointer that this machine would not choose by itself.
pub(super) fn tagged() -> Result<Outcome> {
    let mut sum = Tests::default();
    for form in ["rast_tagged_low", "rast_tagged_wide"] {
        let command = variant::cargo(form, "test --no-run --lib --tests -p rast-primitive")?;
        sum += programs::test([command], &[], &[])?;
    }
    counted(Ok(sum))
}

/// Checks each crate alone, so that it does not depend on features that another crate turns on.
///
/// With no feature and with all features, it checks the crate and its tests. With each feature
/// alone, it checks the library and the examples, and with `--full` also the tests. The step
/// `package` checks each crate with its default features.
///
/// If several choices turn on the same features, only the first is checked.
pub(super) fn features() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    let mut errors = Vec::new();
    for krate in workspace.crates() {
        for choice in choices(krate)
            .into_iter()
            .filter(|choice| !choice.args.is_empty())
        {
            let check = checks("check --quiet", &workspace).args(["-p", &krate.name]);
            let check = match choice.is_whole || is_full() {
                true => check.arg("--all-targets"),
                false => check.args(["--lib", "--examples"]),
            };
            errors.extend(check.args(choice.args).run().err());
        }
    }
    done(crate::no_errors(&errors))
}

/// A choice of features.
struct Choice<'a> {
    /// The arguments of Cargo.
    args: Vec<&'a str>,
    /// Whether it is the default, none or all of them.
    is_whole: bool,
}

/// Each choice of features that turns on something else.
fn choices(krate: &Package) -> Vec<Choice<'_>> {
    let names: Vec<&str> = krate.features().collect();
    let none = "--no-default-features";
    let whole = |args| Choice {
        args,
        is_whole: true,
    };
    let each = names.iter().map(|&name| {
        let args = vec![none, "--features", name];
        let is_whole = false;
        (Choice { args, is_whole }, vec![name])
    });
    let mut choices = vec![
        (whole(vec![]), vec!["default"]),
        (whole(vec![none]), vec![]),
        (whole(vec!["--all-features"]), names.clone()),
    ];
    choices.extend(each);
    let mut seen = Vec::new();
    choices.retain(|(_, names)| {
        let on = krate.turned_on(names);
        let is_new = !seen.contains(&on);
        seen.push(on);
        is_new
    });
    choices.into_iter().map(|(choice, _)| choice).collect()
}

/// `cargo LINE` in the target directory `checks`, in which nothing is linked. Steps that link use
/// another directory, so they can run at the same time.
fn checks(words: &str, workspace: &Workspace) -> Cmd {
    let target = workspace.target_dir.join("checks");
    line(words).env("CARGO_TARGET_DIR", target).without_lines()
}

/// The lints, of everything.
pub(super) fn clippy() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    let clippy = checks(
        "clippy --workspace --all-targets --all-features --",
        &workspace,
    );
    done(clippy.args(["-D", "warnings"]).run())
}

/// Builds and runs the program without std, which links the crates below. It is built alone, so
/// that no other crate turns std on.
pub(super) fn no_std() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    // It takes its entry point from the C library by that library's name on Linux.
    let (flags, command) = if cfg!(target_os = "linux") {
        ("--cfg rast_no_std -C panic=abort", "run")
    } else {
        ("", "build")
    };
    done(
        Cmd::cargo()
            .args([command, "--release", "-p", "no-std"])
            .rustflags(flags)
            .env("CARGO_TARGET_DIR", workspace.target_dir.join("no-std"))
            .run(),
    )
}

/// Moves the processors of a busy graph between workers for a minute, or for ten with `--full`.
/// Runs passes of a conflator whose producers are faster than its consumers.
pub(super) fn stress() -> Result<Outcome> {
    let (seconds, full): (_, &[_]) = match is_full() {
        true => ("600", &[("RAST_FULL", "1".to_string())]),
        false => ("60", &[]),
    };
    let built = programs::build(line(SMOKE))?;
    let is_graph = |program: &Program| program.krate == "rast-msgpass";
    let (graph, passes): (Vec<_>, Vec<_>) = built.into_iter().partition(is_graph);
    let seconds = ("RAST_STRESS_SECONDS", seconds.to_string());
    let mut ran = programs::run_all(&graph, &[seconds], &["--nocapture"]);
    ran.extend(programs::run_all(&passes, full, &["--nocapture"]));
    if is_full() {
        // The same with 64 keys; the step `bench smoke` makes a thousand such passes.
        let words = "conflate --only above --rounds 1".split(' ');
        let built = smoke_programs()?;
        program(&built, "rast-benches").args(words).run()?;
    }
    counted(programs::sum(ran, Vec::new()))
}

/// The models under loom. Also weakens a few orderings, at least one of each protocol; the model of
/// each must fail.
pub(super) fn models() -> Result<Outcome> {
    let table = tree::read(tree::root(), "docs/verification.md")?;
    let labels = match is_full() {
        true => weak::all(&table),
        false => tidy::weak_in_verify(&table),
    };
    if labels.is_empty() {
        return Err("docs/verification.md has no line `weak-in-verify: LABEL, ..`".into());
    }
    counted(weak::with_models(&labels))
}

/// The scenarios under shuttle, in fewer schedules unless `--full`.
pub(super) fn schedules() -> Result<Outcome> {
    let runs = (!is_full()).then_some(SCHEDULES);
    counted(shuttle::run(&[], runs))
}

/// The schedules of a scenario. Each run draws other ones, by a seed that it prints.
const SCHEDULES: u32 = 2000;

/// Runs the examples that end by themselves, as the step `build` built them. The demos have a step
/// of their own.
pub(super) fn examples() -> Result<Outcome> {
    line(BUILD).run()?;
    let built = Workspace::load(tree::root())?.target_dir.join("debug");
    for name in [
        "hello",
        "ring",
        "log-pipeline",
        "order-book",
        "requests",
        "supervision",
        "testing",
        "async-server",
        "observe",
    ] {
        example(&built, name).run()?;
    }
    done(Ok(()))
}

/// Builds what the demos, the benches and the step `stress` run.
pub(super) fn smoke_build() -> Result<Outcome> {
    done(smoke_programs().map(|_| ()))
}

/// The demos of the kv and adserver examples.
pub(super) fn demo() -> Result<Outcome> {
    let built = smoke_programs()?;
    for name in ["kv", "adserver"] {
        example(&built, name).arg("--demo").run()?;
    }
    done(Ok(()))
}

/// Runs each criterion bench once. Only criterion knows the option. If a library or program lacks
/// `bench = false`, this step fails, as `cargo bench -- --save-baseline NAME` would.
pub(super) fn criterion() -> Result<Outcome> {
    cargo("test --workspace --all-features --no-fail-fast --benches -- --noplot")
}

pub(super) fn smoke() -> Result<Outcome> {
    let built = smoke_programs()?;
    let benches = program(&built, "rast-benches").args(["--smoke", "--programs"]);
    done(benches.arg(&built).run())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_features_differ() {
        let workspace = Workspace::load(tree::root()).unwrap();
        let of = |name: &str| -> Vec<Vec<&str>> {
            let choices = choices(workspace.package(name).unwrap()).into_iter();
            choices.map(|choice| choice.args).collect()
        };
        let none = "--no-default-features";
        // Its default is `std`, which is all it has.
        assert_eq!(of("rast-primitive"), [vec![], vec![none]]);
        // Of its features, `async` turns on the other one.
        assert_eq!(
            of("rast-queue"),
            [vec![], vec![none], vec!["--all-features"]]
        );
        let facade = of("rast");
        assert!(
            facade.contains(&vec![none, "--features", "hardened"]),
            "{facade:?}"
        );
    }
}
