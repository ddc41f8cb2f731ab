//! The output of `cargo metadata`, reduced to what the commands use.

use crate::Result;
use crate::cmd::Cmd;
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeSet;
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

/// Which dependency table a line is in.
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
            return Err("`cargo metadata` failed; its message is above".into());
        }
        Workspace::read(&output.text)
    }

    /// Reads what `cargo metadata --format-version 1 --no-deps` printed.
    fn read(text: &str) -> Result<Workspace> {
        let metadata = MetadataCommand::parse(text).map_err(|error| error.to_string())?;
        let root = metadata.workspace_root.as_std_path();
        let mut packages = Vec::new();
        for package in metadata.packages {
            packages.push(read_package(package, root)?);
        }
        packages.sort_by(|a, b| a.dir.cmp(&b.dir));
        let names: Vec<String> = packages.iter().map(|p| p.name.clone()).collect();
        for dependency in packages.iter_mut().flat_map(|p| &mut p.dependencies) {
            dependency.inside |= names.contains(&dependency.name);
        }
        Ok(Workspace {
            packages,
            target_dir: metadata.target_directory.into(),
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

    /// Everything that the features `names` turn on, except `default`: no code checks for it.
    pub(crate) fn turned_on<'a>(&'a self, names: &[&'a str]) -> BTreeSet<&'a str> {
        let mut waiting = names.to_vec();
        let mut on = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            let feature = self.features.iter().find(|(feature, _)| feature == name);
            if on.insert(name)
                && let Some((_, more)) = feature
            {
                waiting.extend(more.iter().map(String::as_str));
            }
        }
        on.remove("default");
        on
    }

    /// Whether it has a target of this kind and name.
    pub(crate) fn has_target(&self, kind: &str, name: &str) -> bool {
        self.targets
            .iter()
            .any(|t| t.kind == kind && t.name == name)
    }
}

fn read_package(package: cargo_metadata::Package, root: &Path) -> Result<Package> {
    let manifest = package.manifest_path.into_std_path_buf();
    let dir = manifest
        .parent()
        .and_then(|dir| dir.strip_prefix(root).ok())
        .unwrap_or(Path::new(""));
    let parts: Vec<String> = dir
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let mut dependencies = Vec::new();
    for dependency in package.dependencies {
        dependencies.push(Dependency {
            kind: match dependency.kind {
                DependencyKind::Normal => Kind::Normal,
                DependencyKind::Build => Kind::Build,
                DependencyKind::Development => Kind::Dev,
                DependencyKind::Unknown => {
                    return Err(format!("unknown kind of dependency `{}`", dependency.name));
                }
            },
            name: dependency.name,
            default_features: dependency.uses_default_features,
            inside: dependency.path.is_some(),
        });
    }
    let targets = package.targets.into_iter().map(|target| Target {
        kind: target.kind.iter().map(ToString::to_string).collect(),
        name: target.name,
    });
    Ok(Package {
        name: package.name.to_string(),
        version: package.version.to_string(),
        dir: parts.join("/"),
        publish: package
            .publish
            .is_none_or(|registries| !registries.is_empty()),
        features: package.features.into_iter().collect(),
        dependencies,
        targets: targets.collect(),
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
        let on = queue.turned_on(&["default"]);
        assert!(
            on.contains("std") && on.contains("rast-alloc/std"),
            "{on:?}"
        );
        assert_eq!(on, queue.turned_on(&["std"]));
        assert!(!workspace.package("xtask").unwrap().publish);
        assert!(
            workspace
                .package("rast")
                .unwrap()
                .has_target("example", "kv")
        );
    }
}
