//! Where the workspace stands and which files it holds.

use crate::Result;
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
}
