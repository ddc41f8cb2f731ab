//! No circle of files: the imports among the files of a crate point one way.
//!
//! File A imports file B if the code of A names an item of B, by a `use` or by a path. B is the
//! file that defines the item, even if A names it through a re-export. So a `mod.rs` or `lib.rs`
//! that only declares and re-exports modules imports nothing. A call of a method is no import, and
//! items that are only for tests do not count.

use super::{File, is_library};
use crate::paths::{Named, paths};
use crate::source::{Source, is_word};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The circles of every crate.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for name in crates(files) {
        let tree = Tree::new(files, &format!("crates/{name}/src/"));
        let circles = tree.circles();
        faults.extend(circles.iter().map(|circle| tree.describe(circle)));
    }
    faults
}

/// The directories under `crates/`.
fn crates(files: &[File]) -> BTreeSet<&str> {
    let paths = files.iter().filter(|file| is_library(&file.path));
    paths
        .filter_map(|file| file.path.split('/').nth(1))
        .collect()
}

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// One file of a crate.
struct Part<'a> {
    path: &'a str,
    source: Source<'a>,
    module: Module,
    /// The modules written inside of the file, and where each is.
    inline: Vec<(Range<usize>, Module)>,
    named: Vec<Named>,
}

/// The files of one crate by their modules.
struct Tree<'a> {
    parts: Vec<Part<'a>>,
    /// The files of a module: several where the platform chooses among them.
    modules: BTreeMap<Module, BTreeSet<usize>>,
}

/// For a pair of files, the names that the first imports from the second.
type Imports = BTreeMap<(usize, usize), BTreeSet<String>>;

impl<'a> Tree<'a> {
    /// Reads the crate whose sources are in the folder `src`.
    fn new(files: &'a [File], src: &str) -> Tree<'a> {
        let mut tree = Tree {
            parts: Vec::new(),
            modules: BTreeMap::new(),
        };
        tree.add(files, &format!("{src}lib.rs"), src.to_string(), Vec::new());
        tree
    }

    /// Adds the file at `path`, whose child modules are in `folder`, and those modules.
    fn add(&mut self, files: &'a [File], path: &str, folder: String, module: Module) {
        let Some(file) = files.iter().find(|file| file.path == path) else {
            return;
        };
        let index = self.parts.len();
        let source = Source::new(&file.text);
        let mut children = Vec::new();
        let mut inline: Vec<(Range<usize>, Module)> = Vec::new();
        for (at, word) in source.words() {
            if word != "mod" || source.in_test(at) {
                continue;
            }
            let rest = source.code[at + 3..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c as u8)).collect();
            let after = rest[name.len()..].trim_start();
            let mut child = inside(&inline, at).unwrap_or(&module).clone();
            let below = child[module.len()..].join("/");
            child.push(name.clone());
            if after.starts_with('{') {
                let open = source.code.len() - after.len();
                let end = crate::source::close(source.code.as_bytes(), open);
                inline.push((open..end, child));
            } else if after.starts_with(';') {
                let attributes = &source.text[source.statement_start(at)..at];
                let own = attributes.split("path = \"").nth(1);
                let own = own.and_then(|rest| rest.split('"').next());
                let below = match below.as_str() {
                    "" => folder.clone(),
                    below => format!("{folder}{below}/"),
                };
                children.push((child, name, below, own.map(str::to_string)));
            }
        }
        for module in inline.iter().map(|(_, module)| module).chain([&module]) {
            let files = self.modules.entry(module.clone()).or_default();
            files.insert(index);
        }
        let named = paths(&source);
        self.parts.push(Part {
            path: &file.path,
            source,
            module,
            inline,
            named,
        });
        for (child, name, below, own) in children {
            if let Some(own) = own {
                // Such a path starts from the folder of the file.
                let beside = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
                let stem = own.trim_end_matches(".rs");
                self.add(
                    files,
                    &format!("{beside}{own}"),
                    format!("{beside}{stem}/"),
                    child,
                );
            } else {
                for path in [format!("{below}{name}.rs"), format!("{below}{name}/mod.rs")] {
                    self.add(files, &path, format!("{below}{name}/"), child.clone());
                }
            }
        }
    }

    /// The imports of every file.
    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (from, part) in self.parts.iter().enumerate() {
            for named in &part.named {
                if part.source.in_test(named.at) {
                    continue;
                }
                let name = named.import.as_ref().map(|import| import.name.as_str());
                for to in self.target(from, named.at, &named.path) {
                    let below = self.parts[to].module.starts_with(&part.module);
                    let again = named.import.as_ref().is_some_and(|import| import.again);
                    let only_again = below && again && !name.is_some_and(|name| part.uses(name));
                    if to != from && !only_again {
                        let last = named.path.rsplit("::").next().unwrap_or("");
                        let names = imports.entry((from, to)).or_default();
                        names.insert(last.to_string());
                    }
                }
            }
        }
        imports
    }

    /// The files that define what `path` leads to, which is at `at` in a file. Returns none if it
    /// leads to a module or out of the crate.
    fn target(&self, from: usize, at: usize, path: &str) -> BTreeSet<usize> {
        let part = &self.parts[from];
        let module = inside(&part.inline, at).unwrap_or(&part.module);
        let parts: Vec<&str> = path.split("::").collect();
        match self.follow(module, &parts, &mut BTreeSet::new()) {
            Some(Found::Item(files)) => files,
            _ => BTreeSet::new(),
        }
    }

    /// What a path in the code of `module` leads to.
    fn follow(&self, module: &[String], path: &[&str], seen: &mut Seen) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => self.below(Vec::new(), rest, seen),
            "self" => self.below(module.to_vec(), rest, seen),
            "super" => {
                let mut above = module.to_vec();
                above.pop()?;
                let mut rest = rest;
                while let ["super", after @ ..] = rest {
                    above.pop()?;
                    rest = after;
                }
                self.below(above, rest, seen)
            }
            // A name of this module: a child, or a name that a `use` imported. A path that begins
            // with another name leads to an outside crate or an item of this file.
            name => {
                let child = [module, &[name.to_string()]].concat();
                let is_known = self.modules.contains_key(&child)
                    || self.brought(module).any(|(_, import)| import.name == name);
                if is_known {
                    self.below(module.to_vec(), path, seen)
                } else {
                    None
                }
            }
        }
    }

    /// What the names of `path` lead to, one name after the other, starting in `module`.
    fn below(&self, module: Module, path: &[&str], seen: &mut Seen) -> Option<Found> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Found::Module(module));
        };
        let own = self.modules.get(&module)?;
        if *first == "*" {
            return Some(Found::Item(own.clone()));
        }
        let child = [module.as_slice(), &[(*first).to_string()]].concat();
        if self.modules.contains_key(&child) {
            return self.below(child, rest, seen);
        }
        if !seen.insert((module.clone(), (*first).to_string())) {
            return None;
        }
        let mut is_brought = false;
        for (path, import) in self.brought(&module) {
            if import.name != *first {
                continue;
            }
            is_brought = true;
            let path: Vec<&str> = path.split("::").chain(rest.iter().copied()).collect();
            if let Some(found) = self.follow(&module, &path, seen) {
                return Some(found);
            }
        }
        if is_brought {
            return None;
        }
        if own.iter().any(|file| self.parts[*file].defines(first)) {
            return Some(Found::Item(own.clone()));
        }
        for (path, import) in self.brought(&module) {
            let Some(path) = path.strip_suffix("::*").filter(|_| import.name == "*") else {
                continue;
            };
            let path: Vec<&str> = path.split("::").collect();
            let found = self.follow(&module, &path, seen);
            if let Some(Found::Module(other)) = found
                && self.offers(&other, first)
            {
                return self.below(other, &[first], seen);
            }
        }
        // A macro may have defined it.
        Some(Found::Item(own.clone()))
    }

    /// Whether a module has an item or an import of this name, or all names of another module.
    fn offers(&self, module: &[String], name: &str) -> bool {
        let files = self.modules.get(module).into_iter().flatten();
        let is_own = files.clone().any(|file| self.parts[*file].defines(name));
        let is_name = |import: &str| import == name || import == "*";
        is_own
            || self
                .brought(module)
                .any(|(_, import)| is_name(&import.name))
    }

    /// The names that the `use` trees of a module import, with their paths.
    fn brought<'b>(
        &'b self,
        module: &'b [String],
    ) -> impl Iterator<Item = (&'b str, &'b crate::paths::Import)> {
        let files = self.modules.get(module).into_iter().flatten();
        files.flat_map(move |file| {
            let part = &self.parts[*file];
            part.named.iter().filter_map(move |named| {
                let own = inside(&part.inline, named.at).unwrap_or(&part.module);
                let import = named.import.as_ref()?;
                let counts = own == module && !part.source.in_test(named.at);
                counts.then_some((named.path.as_str(), import))
            })
        })
    }

    /// The sets of files that all import each other, directly or by way of others of the set.
    fn circles(&self) -> Vec<BTreeSet<usize>> {
        let imports = self.imports();
        let reached: Vec<BTreeSet<usize>> = (0..self.parts.len())
            .map(|file| {
                let mut reached = BTreeSet::new();
                let mut next = vec![file];
                while let Some(from) = next.pop() {
                    for (_, to) in imports.keys().filter(|(other, _)| *other == from) {
                        if reached.insert(*to) {
                            next.push(*to);
                        }
                    }
                }
                reached
            })
            .collect();
        let mut circles = BTreeSet::new();
        for (file, to) in reached.iter().enumerate() {
            let back = |other: &usize| reached[*other].contains(&file);
            let circle: BTreeSet<usize> = to.iter().copied().filter(back).collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// The fault of a circle, each import in it on a line of its own.
    fn describe(&self, circle: &BTreeSet<usize>) -> String {
        let first = circle.first().map_or("", |file| self.parts[*file].path);
        let mut text = format!(
            "{first}: a circle of {} files; imports point one way",
            circle.len()
        );
        for ((from, to), names) in self.imports() {
            if circle.contains(&from) && circle.contains(&to) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let name = |file: usize| self.parts[file].path.rsplit("/src/").next();
                text += &format!(
                    "\n    {} imports {} from {}",
                    name(from).unwrap_or(""),
                    names.join(", "),
                    name(to).unwrap_or("")
                );
            }
        }
        text
    }
}

/// The names that a search has visited, each with its module, because re-exports may form a cycle.
type Seen = BTreeSet<(Module, String)>;

/// Where a path ends.
enum Found {
    Module(Module),
    /// An item, in one of these files.
    Item(BTreeSet<usize>),
}

/// The innermost of the modules inside of a file that holds the byte at `at`.
fn inside(inline: &[(Range<usize>, Module)], at: usize) -> Option<&Module> {
    let holding = inline.iter().filter(|(range, _)| range.contains(&at));
    holding
        .map(|(_, module)| module)
        .max_by_key(|module| module.len())
}

impl Part<'_> {
    /// Whether the code defines an item called `name`.
    fn defines(&self, name: &str) -> bool {
        const KINDS: [&str; 10] = [
            "fn",
            "struct",
            "enum",
            "union",
            "trait",
            "type",
            "const",
            "static",
            "macro_rules",
            "mut",
        ];
        let words: Vec<(usize, &str)> = self.source.words().collect();
        words
            .windows(2)
            .any(|pair| pair[1].1 == name && KINDS.contains(&pair[0].1))
    }

    /// Whether the code outside of `use` and of tests has the word `name`.
    fn uses(&self, name: &str) -> bool {
        let imports: Vec<Range<usize>> = self
            .named
            .iter()
            .filter_map(|named| Some(named.at..named.import.as_ref()?.end))
            .collect();
        self.source.words().any(|(at, word)| {
            word == name
                && !self.source.in_test(at)
                && !imports.iter().any(|import| import.contains(&at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate of these files, by their names without `.rs`, sorted.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<File> = files
            .iter()
            .map(|(name, text)| File {
                path: format!("crates/a/src/{name}.rs"),
                text: (*text).to_string(),
            })
            .collect();
        let tree = Tree::new(&files, "crates/a/src/");
        assert_eq!(tree.parts.len(), files.len(), "each file is a module");
        let name = |file: &usize| {
            let path = tree.parts[*file].path;
            path["crates/a/src/".len()..path.len() - 3].to_string()
        };
        tree.circles()
            .iter()
            .map(|circle| {
                let mut names: Vec<String> = circle.iter().map(name).collect();
                names.sort();
                names
            })
            .collect()
    }

    fn assert_circle(files: &[(&str, &str)], circle: &[&str]) {
        assert_eq!(circles(files), [circle], "{files:?}");
    }

    fn assert_none(files: &[(&str, &str)]) {
        assert_eq!(circles(files), Vec::<Vec<String>>::new(), "{files:?}");
    }

    #[test]
    fn imports_point_one_way() {
        assert_none(&[
            ("lib", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            ("a", "use crate::b::B;\npub struct A(B, crate::c::C);\n"),
            ("b", "use crate::c::C;\npub struct B(C);\n"),
            ("c", "use core::fmt;\nuse outside::d;\npub struct C;\n"),
        ]);
        assert_circle(
            &[
                ("lib", "mod a;\nmod b;\nmod c;\n"),
                ("a", "use crate::b::B;\n"),
                ("b", "pub struct B;\nfn f() { crate::c::g(); }\n"),
                ("c", "pub fn g() -> super::a::A {}\n"),
            ],
            &["a", "b", "c"],
        );
    }

    #[test]
    fn two_circles_are_two() {
        let files = [
            ("lib", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a", "use crate::b::B;\npub struct A;\nuse crate::c::C;\n"),
            ("b", "use crate::a::A;\npub struct B;\n"),
            ("c", "use crate::d::D;\npub struct C;\n"),
            ("d", "use crate::c::C;\npub struct D;\n"),
        ];
        assert_eq!(circles(&files), [["a", "b"], ["c", "d"]]);
    }

    #[test]
    fn an_item_counts_where_it_is_defined() {
        // By way of `lib.rs`, `a` takes an item of `b`, which takes one of `a`.
        assert_circle(
            &[
                ("lib", "mod a;\nmod b;\npub use crate::b::{B as C};\n"),
                ("a", "use crate::C;\npub struct A;\n"),
                ("b", "use crate::a::A;\npub struct B;\n"),
            ],
            &["a", "b"],
        );
        // By way of a module's name, and of all names of a module.
        assert_circle(
            &[
                ("lib", "mod a;\nmod b;\n"),
                ("a", "use crate::b;\npub struct A(b::c::C);\n"),
                ("b", "pub mod c;\n"),
                ("b/c", "use crate::a::*;\npub struct C;\n"),
            ],
            &["a", "b/c"],
        );
        assert_circle(
            &[
                ("lib", "mod a;\nmod b;\npub use b::*;\n"),
                ("a", "use crate::B;\npub const A: u8 = 1;\n"),
                ("b", "use crate::a::A;\npub struct B;\n"),
            ],
            &["a", "b"],
        );
    }

    #[test]
    fn a_file_that_declares_imports_nothing() {
        let child = ("a/b", "use super::A;\nimpl A { fn f(&self) {} }\n");
        let declared = "mod b;\npub struct A;\nimpl A { fn g(&self) { self.f() } }\n";
        assert_none(&[("lib", "mod a;\n"), ("a", declared), child]);
        let again = "mod b;\npub(crate) use b::{B, C};\npub struct A;\n";
        assert_none(&[("lib", "mod a;\n"), ("a", again), child]);
        for used in [
            "mod b;\nuse b::B;\npub struct A;\n",
            "mod b;\npub(crate) use b::B;\npub struct A(B);\n",
            "mod b;\npub struct A;\nfn f() { b::g() }\n",
        ] {
            let child = ("a/b", "use super::A;\npub struct B;\npub fn g() {}\n");
            assert_circle(&[("lib", "mod a;\n"), ("a", used), child], &["a", "a/b"]);
        }
    }

    #[test]
    fn tests_and_comments_count_for_nothing() {
        assert_none(&[
            ("lib", "mod a;\nmod b;\n"),
            ("a", "use crate::b::B;\npub struct A;\n"),
            (
                "b",
                "//! [`crate::a::A`]\npub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n",
            ),
        ]);
    }

    #[test]
    fn modules_inside_of_a_file_and_paths_of_files() {
        // `super` in a module inside of a file is that file.
        assert_none(&[
            ("lib", "mod a;\n"),
            (
                "a",
                "pub struct A;\nmod b { use super::A; mod c { use super::super::A; } }\n",
            ),
        ]);
        assert_circle(
            &[
                (
                    "lib",
                    "#[cfg(x)]\nmod a;\n#[cfg(not(x))]\n#[path = \"n.rs\"]\nmod a;\nmod b;\n",
                ),
                ("a", "pub fn f() {}\n"),
                ("n", "pub fn f() -> crate::b::B {}\n"),
                ("b", "pub struct B;\nfn g() { crate::a::f() }\n"),
            ],
            &["b", "n"],
        );
    }

    #[test]
    fn a_circle_is_described_by_its_imports() {
        let file = |path: &str, text: &str| File {
            path: format!("crates/a/src/{path}"),
            text: text.into(),
        };
        let files = [
            file("lib.rs", "mod a;\nmod b;\n"),
            file("a.rs", "use crate::b::{B, f};\npub struct A;\n"),
            file("b.rs", "use crate::a::A;\npub struct B;\npub fn f() {}\n"),
        ];
        assert_eq!(
            check(&files)
                .into_iter()
                .filter(|fault| fault.contains("crates/a/"))
                .collect::<Vec<_>>(),
            [
                "crates/a/src/a.rs: a circle of 2 files; imports point one way\n    \
              a.rs imports B, f from b.rs\n    b.rs imports A from a.rs"
            ]
        );
    }
}
