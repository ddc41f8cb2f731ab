//! The workspace as `cargo metadata` tells it, cut down to what the commands ask for.

use crate::Result;
use crate::cmd::Cmd;
use crate::json::Json;
use std::path::{Path, PathBuf};

/// Every package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_dir: PathBuf,
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its directory from the root of the workspace, with `/` between the parts.
    pub(crate) dir: String,
    pub(crate) publish: bool,
    pub(crate) features: Vec<(String, Vec<String>)>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// One line of a package's dependency tables.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) default_features: bool,
    /// Whether it is a crate of this workspace.
    pub(crate) inside: bool,
}

/// Which dependency table a line stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// One thing that Cargo builds from a package.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: String,
}

impl Workspace {
    /// Asks Cargo about the workspace at `root`.
    pub(crate) fn load(root: &Path) -> Result<Workspace> {
        let output = Cmd::cargo()
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .dir(root)
            .read()?;
        if !output.success {
            return Err("`cargo metadata` failed; its message stands above".into());
        }
        Workspace::read(&output.text)
    }

    /// Reads what `cargo metadata --format-version 1 --no-deps` printed.
    pub(crate) fn read(text: &str) -> Result<Workspace> {
        let json = Json::parse(text)?;
        let root = PathBuf::from(json.text("workspace_root")?);
        let mut packages = Vec::new();
        for package in json.list("packages")? {
            packages.push(read_package(package, &root)?);
        }
        packages.sort_by(|a, b| a.dir.cmp(&b.dir));
        let names: Vec<String> = packages.iter().map(|p| p.name.clone()).collect();
        for dependency in packages.iter_mut().flat_map(|p| &mut p.dependencies) {
            dependency.inside |= names.contains(&dependency.name);
        }
        Ok(Workspace {
            packages,
            target_dir: PathBuf::from(json.text("target_directory")?),
        })
    }

    /// The packages under `crates/`, by directory.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|p| p.dir.starts_with("crates/"))
    }

    /// The crates called `names`, or all of them when it is empty.
    pub(crate) fn chosen(&self, names: &[String]) -> Result<Vec<&Package>> {
        if let Some(name) = names.iter().find(|n| self.crates().all(|k| k.name != **n)) {
            return Err(format!("no crate `{name}` under crates/"));
        }
        let chosen = |krate: &&Package| names.is_empty() || names.contains(&krate.name);
        Ok(self.crates().filter(chosen).collect())
    }

    /// The package called `name`.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|p| p.name == name)
    }
}

impl Package {
    /// The feature names, without `default`.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        self.features
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| *name != "default")
    }

    /// Whether it has a target of this kind and name.
    pub(crate) fn has_target(&self, kind: &str, name: &str) -> bool {
        self.targets
            .iter()
            .any(|t| t.kind == kind && t.name == name)
    }
}

fn read_package(json: &Json, root: &Path) -> Result<Package> {
    let manifest = PathBuf::from(json.text("manifest_path")?);
    let dir = manifest
        .parent()
        .and_then(|dir| dir.strip_prefix(root).ok())
        .unwrap_or(Path::new(""));
    let parts: Vec<String> = dir
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let mut features = Vec::new();
    if let Some(Json::Object(members)) = json.get("features") {
        for (name, value) in members {
            let Json::List(list) = value else {
                return Err("JSON: a feature is not a list".into());
            };
            features.push((name.clone(), Json::strings(list)));
        }
    }
    let mut dependencies = Vec::new();
    for dependency in json.list("dependencies")? {
        dependencies.push(Dependency {
            name: dependency.text("name")?.to_string(),
            kind: match dependency.text_or_null("kind") {
                None => Kind::Normal,
                Some("build") => Kind::Build,
                Some("dev") => Kind::Dev,
                Some(other) => return Err(format!("unknown kind of dependency `{other}`")),
            },
            default_features: dependency.bool("uses_default_features")?,
            inside: dependency.text_or_null("path").is_some(),
        });
    }
    let mut targets = Vec::new();
    for target in json.list("targets")? {
        targets.push(Target {
            name: target.text("name")?.to_string(),
            kind: Json::strings(target.list("kind")?).concat(),
        });
    }
    Ok(Package {
        name: json.text("name")?.to_string(),
        version: json.text("version")?.to_string(),
        dir: parts.join("/"),
        publish: !matches!(json.get("publish"), Some(Json::List(list)) if list.is_empty()),
        features,
        dependencies,
        targets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_readable() {
        let workspace = Workspace::load(crate::tree::root()).unwrap();
        let queue = workspace.package("rast-queue").unwrap();
        assert_eq!(queue.dir, "crates/rast-queue");
        assert!(queue.publish);
        assert!(
            queue
                .dependencies
                .iter()
                .any(|d| d.name == "rast-alloc" && d.inside && !d.default_features)
        );
        assert!(!workspace.package("xtask").unwrap().publish);
        assert!(
            workspace
                .package("rast")
                .unwrap()
                .has_target("example", "kv")
        );
    }
}
