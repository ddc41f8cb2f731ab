//! The steps that are no commands of their own.

use super::outcome::Outcome;
use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::{Package, Workspace};
use crate::{Result, bench, package, programs, shuttle, tidy, tree, variant, weak};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether searches take minutes.
pub(super) static IS_FULL: AtomicBool = AtomicBool::new(false);

pub(super) fn is_full() -> bool {
    IS_FULL.load(Ordering::Relaxed)
}

pub(super) fn done(result: Result) -> Result<Outcome> {
    result.map(|()| Outcome::Passed(Tests::default()))
}

pub(super) fn counted(result: Result<Tests>) -> Result<Outcome> {
    result.map(Outcome::Passed)
}

/// `cargo LINE`.
fn line(line: &str) -> Cmd {
    Cmd::cargo().args(line.split_whitespace())
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
/// clients. One command, because Cargo chooses the features of outside crates for each command
/// anew.
pub(crate) const BUILD: &str = "build --workspace --all-features --tests --examples --bin clients";

/// The tests of the plain allocator. With all features the allocator is hardened: it keeps no
/// mappings then, and has no blocks of 8 bytes.
const PLAIN: &str = "build -p rast-alloc --tests";

/// Builds what the steps `tests`, `doc tests` and `clients` run.
pub(super) fn build() -> Result<Outcome> {
    let mut built = 0;
    for tests in [BUILD, PLAIN] {
        built += programs::build(line(tests))?.len();
    }
    println!("{}", tidy::count(built, "test program"));
    done(Ok(()))
}

/// Unit and integration tests, and those examples that need features that are off by default.
pub(super) fn tests() -> Result<Outcome> {
    line(BUILD).run()?;
    let built = Workspace::load(tree::root())?
        .target_dir
        .join("debug/examples");
    for name in ["testing", "async-server", "observe"] {
        let example = built.join(name);
        Cmd::new(example.with_extension(std::env::consts::EXE_EXTENSION)).run()?;
    }
    counted(programs::test([BUILD, PLAIN].map(line), &[], &[]))
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

/// The layers above the allocator, whose tests take all of their memory from it then.
///
/// The allocator's own test is among them: it fails where it is not the program's. They are built
/// from the packages, and with the features that are on by default, so that this is tested by the
/// same build.
pub(super) fn global() -> Result<Outcome> {
    let (_, tree) = package::unpack()?;
    let commands: Result<Vec<Cmd>> = GLOBAL
        .iter()
        .map(|line| Ok(variant::cargo("rast_global_alloc", line)?.dir(&tree)))
        .collect();
    counted(programs::test(commands?, &[], &[]))
}

const GLOBAL: [&str; 3] = [
    "test --no-run -p rast-alloc --test global --test threads",
    "test --no-run -p rast-queue -p rast-timers -p rast-conflate -p rast-sharder -p rast-msgpass \
     --lib --test api --test model --test it --test memory --test protocol --test allocation \
     --test many_edges",
    "test --no-run -p rast-primitive -p rast-scheduler -p rast-executor -p rast-reactor --test api",
];

/// The two forms of the tagged pointer that this machine would not choose by itself.
pub(super) fn tagged() -> Result<Outcome> {
    let mut sum = Tests::default();
    for form in ["rast_tagged_low", "rast_tagged_wide"] {
        let command = variant::cargo(form, "test --no-run --lib --tests -p rast-primitive")?;
        sum += programs::test([command], &[], &[])?;
    }
    counted(Ok(sum))
}

/// Each crate and its tests with no other crate beside it, so that none depends on a neighbour's
/// features: by default, with no feature, and with all. With each feature alone the library and
/// the examples, and only if `--full` the tests.
///
/// Of the choices that turn on the same, the first is checked.
pub(super) fn features() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    let mut errors = Vec::new();
    for krate in workspace.crates() {
        for choice in choices(krate) {
            let check = checks("check --quiet", &workspace).args(["-p", &krate.name]);
            let check = match choice.is_whole || is_full() {
                true => check.arg("--all-targets"),
                false => check.args(["--lib", "--examples"]),
            };
            errors.extend(check.args(choice.args).run().err());
        }
    }
    match errors.is_empty() {
        true => done(Ok(())),
        false => Err(errors.join("; ")),
    }
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

/// `cargo LINE` in the target directory of all that is checked and not built, as another step
/// builds beside.
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

/// The program without std links what lies below and runs; alone, so that no neighbour turns std
/// on.
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

/// Moves the instances of a busy graph for a minute, or ten; and outruns a conflator's consumers
/// for a million passes.
pub(super) fn stress() -> Result<Outcome> {
    let seconds = if is_full() { "600" } else { "60" };
    let mut sum = line("test --release -p rast-msgpass --test stress -- --nocapture")
        .env("RAST_STRESS_SECONDS", seconds)
        .count()?;
    // One test after the other, because some of them need both cores.
    let mut passes = line(
        "test --release -p rast-conflate --test above_capacity -- --test-threads=1 --nocapture",
    );
    if is_full() {
        passes = passes.env("RAST_FULL", "1");
        // The same with 64 keys; the step `bench smoke` makes a thousand such passes.
        let words = "conflate --only above --rounds 1".split(' ');
        let args: Vec<String> = words.map(str::to_string).collect();
        bench::run(&args, false)?;
    }
    sum += passes.count()?;
    counted(Ok(sum))
}

/// The models under loom; and a few orderings, at least one of each protocol, each caught by its
/// model.
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

/// Builds the examples as the READMEs start them, all at once, so that no step after this one
/// builds them with other features; runs those that end by themselves. The demos have a step of
/// their own.
pub(super) fn examples() -> Result<Outcome> {
    cargo("build --release --examples")?;
    for name in [
        "hello",
        "ring",
        "log-pipeline",
        "order-book",
        "requests",
        "supervision",
    ] {
        cargo(&format!("run --release --example {name}"))?;
    }
    done(Ok(()))
}

/// The demos of the kv and adserver examples, as the READMEs start them.
pub(super) fn demo() -> Result<Outcome> {
    cargo("run --release --example kv -- --demo")?;
    cargo("run --release --features io --example adserver -- --demo")
}

/// Each criterion bench once. The option belongs to criterion alone: a library or program without
/// `bench = false` fails here, as it would fail `cargo bench -- --save-baseline NAME`.
pub(super) fn criterion() -> Result<Outcome> {
    cargo("test --workspace --all-features --no-fail-fast --benches -- --noplot")
}

pub(super) fn smoke() -> Result<Outcome> {
    done(bench::run(&["--smoke".to_string()], false))
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
