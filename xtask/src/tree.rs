//! The directory of the workspace and the list of its files.

use crate::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        own.parent().map_or(own.clone(), Path::to_path_buf)
    })
}

/// Every file below `root`, as sorted paths from it with `/` between the parts.
///
/// Build output, version control and symbolic links to directories are left out.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut stack = vec![String::new()];
    while let Some(dir) = stack.pop() {
        let path = root.join(&dir);
        let entries =
            std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = if dir.is_empty() {
                name.clone()
            } else {
                format!("{dir}/{name}")
            };
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_dir() {
                let build_output = name == "target" || entry.path().join("CACHEDIR.TAG").exists();
                if name != ".git" && !build_output {
                    stack.push(below);
                }
            } else if name != ".git" && entry.path().is_file() {
                found.push(below);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of the file at `path` below `root`; `None` when it is not UTF-8.
pub(crate) fn text(root: &Path, path: &str) -> Result<Option<String>> {
    let bytes = std::fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
    Ok(String::from_utf8(bytes).ok())
}

/// The text of the file at `path` below `root`, which must be UTF-8.
pub(crate) fn read(root: &Path, path: &str) -> Result<String> {
    text(root, path)?.ok_or_else(|| format!("{path}: not UTF-8"))
}

/// Copies the files below `from` to `to`, but a file in `changed` gets the text that `changed` has
/// for it. Removes other files below `to`.
///
/// A file that does not change keeps its time, and a changed file gets the present time. So Cargo
/// builds again exactly what changed.
pub(crate) fn mirror(from: &Path, to: &Path, changed: &BTreeMap<String, String>) -> Result {
    std::fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let wanted = files(from)?;
    for old in files(to)? {
        if !wanted.contains(&old) {
            std::fs::remove_file(to.join(&old)).map_err(|error| format!("{old}: {error}"))?;
        }
    }
    for path in wanted {
        let at = |error: std::io::Error| format!("{path}: {error}");
        let new = match changed.get(&path) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(from.join(&path)).map_err(at)?,
        };
        let target = to.join(&path);
        if std::fs::read(&target).ok().as_ref() != Some(&new) {
            std::fs::create_dir_all(target.parent().unwrap_or(to)).map_err(at)?;
            std::fs::write(&target, new).map_err(at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_itself_and_no_build_output() {
        let files = files(root()).unwrap();
        assert!(files.iter().any(|f| f == "xtask/src/tree.rs"));
        assert!(
            files
                .iter()
                .all(|f| !f.starts_with("target/") && !f.starts_with(".git/"))
        );
    }

    #[test]
    fn mirrors_what_changed_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("rast-mirror-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        std::fs::create_dir_all(from.join("b")).unwrap();
        std::fs::write(from.join("a"), "a").unwrap();
        std::fs::write(from.join("b/c"), "c").unwrap();
        let time = |path: &str| to.join(path).metadata().unwrap().modified().unwrap();

        mirror(&from, &to, &BTreeMap::new()).unwrap();
        assert_eq!(files(&to).unwrap(), ["a", "b/c"]);
        let old = std::time::SystemTime::UNIX_EPOCH;
        for path in ["a", "b/c"] {
            let file = std::fs::File::options().write(true).open(to.join(path));
            file.unwrap().set_modified(old).unwrap();
        }
        std::fs::write(to.join("d"), "not in `from`").unwrap();
        let changed = BTreeMap::from([("b/c".to_string(), "other".to_string())]);
        mirror(&from, &to, &changed).unwrap();
        assert_eq!(files(&to).unwrap(), ["a", "b/c"]);
        assert_eq!(read(&to, "b/c").unwrap(), "other");
        assert_eq!(time("a"), old);
        assert!(time("b/c") > old);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
