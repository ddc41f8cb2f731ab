//! Disk space of `cargo xtask verify`.
//!
//! Steps that build with different flags have different target directories, which need much space
//! together. On a developer's machine they are kept, so that the next run is quick. In CI, where
//! the variable `CI` is set, each directory is removed after the last step that uses it.
//!
//! Sizes come from `df` and `du`. If these programs are missing, nothing is checked and no size is
//! printed.

use crate::Result;
use crate::cmd::Cmd;
use std::path::Path;

/// What is removed of a target directory that no other step uses. `debug` itself is kept, because
/// it has the program that runs the steps; its examples are links to files in `deps`.
fn parts(dir: &str) -> Vec<&str> {
    match dir {
        "debug" => vec!["debug/deps", "debug/examples", "debug/build"],
        _ => vec![dir],
    }
}

/// The space that a run needs, in KiB.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// `verify --quick`.
    Quick = 6 << 20,
    /// All steps, one group of target directories at a time.
    Removing = 14 << 20,
    /// All steps, with every target directory kept.
    Keeping = 25 << 20,
}

/// Whether directories are removed.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Prints the free space. Returns an error if the free space and the target directory, whose files
/// are used again, are less than `need` together.
pub(crate) fn check(target: &Path, need: Need) -> Result {
    let Some(free) = free(target) else {
        return Ok(());
    };
    let used = used(target).unwrap_or(0);
    println!(
        "disk: {} free, {} in the target directory",
        gib(free),
        gib(used)
    );
    enough(free, used, need as u64)
}

fn enough(free: u64, used: u64, need: u64) -> Result {
    if free + used >= need {
        return Ok(());
    }
    Err(format!(
        "the disk has {} free and the target directory {}; verify needs {} together. Remove \
         other files, or set CI=1: then each target directory is removed after its last step",
        gib(free),
        gib(used),
        gib(need)
    ))
}

/// Removes target directories; prints what that frees.
pub(crate) fn release(target: &Path, dirs: &[&str]) {
    let before = free(target);
    let mut is_any = false;
    for dir in dirs {
        for part in parts(dir) {
            is_any |= std::fs::remove_dir_all(target.join(part)).is_ok();
        }
    }
    if is_any && let (Some(before), Some(after)) = (before, free(target)) {
        println!(
            "disk: {} free; {} had {}",
            gib(after),
            dirs.join(", "),
            gib(after.saturating_sub(before))
        );
    }
}

/// Free space for this user where `dir` is, in KiB; `None` if it cannot be read.
pub(crate) fn free(dir: &Path) -> Option<u64> {
    available(&answer(Cmd::new("df").arg("-Pk").arg(dir))?)
}

/// Space that `dir` takes, in KiB; `None` if it cannot be read.
fn used(dir: &Path) -> Option<u64> {
    let text = answer(Cmd::new("du").arg("-sk").arg(dir))?;
    text.split_whitespace().next()?.parse().ok()
}

fn answer(cmd: Cmd) -> Option<String> {
    let output = cmd.quiet().read().ok()?;
    output.success.then_some(output.text)
}

/// The number before the percentage in the last line that `df -Pk` prints. It is not found by
/// counting columns, because the name of a device may contain spaces.
fn available(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.lines().last()?.split_whitespace().collect();
    let percentage = words.iter().position(|word| word.ends_with('%'))?;
    words[percentage.checked_sub(1)?].parse().ok()
}

/// KiB in words.
pub(crate) fn gib(kib: u64) -> String {
    format!("{:.1} GiB", kib as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_df_prints() {
        let head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n";
        let line = |line: &str| available(&format!("{head}{line}\n"));
        assert_eq!(
            line("/dev/vda 264212084 12839036 82446852 14% /"),
            Some(82_446_852)
        );
        assert_eq!(line("//host/a b 100 60 40 60% /mnt/100 1%"), Some(40));
        assert_eq!(line("map auto_home 0 0 0 100% /home"), Some(0));
        assert_eq!(line("overlay - - - - /"), None);
        assert_eq!(line("1% /"), None);
        assert_eq!(available(""), None);
    }

    #[test]
    fn space_that_cannot_be_read_stops_nothing() {
        let nowhere = Path::new("/no/such/directory");
        assert_eq!(free(nowhere), None);
        assert_eq!(used(nowhere), None);
        assert_eq!(check(nowhere, Need::Keeping), Ok(()));
    }

    #[test]
    fn what_is_built_counts() {
        assert_eq!(enough(5, 10, 15), Ok(()));
        let error = enough(4 << 20, 10 << 20, 15 << 20).unwrap_err();
        assert!(error.contains("4.0 GiB free"), "{error}");
        assert!(error.contains("needs 15.0 GiB"), "{error}");
    }

    #[test]
    fn what_is_used_is_kept() {
        let target = std::env::temp_dir().join(format!("rast-space-{}", std::process::id()));
        for dir in ["loom/release", "weak/tree", "debug/deps", "release"] {
            std::fs::create_dir_all(target.join(dir)).unwrap();
        }
        release(&target, &["loom"]);
        release(&target, &[]);
        let is_there = |dir: &str| target.join(dir).exists();
        assert!(!is_there("loom") && is_there("weak") && is_there("debug/deps"));
        release(&target, &["weak", "debug"]);
        assert!(!is_there("weak") && !is_there("debug/deps"));
        assert!(is_there("debug") && is_there("release"));
        std::fs::remove_dir_all(&target).unwrap();
    }
}
