//! How long a graph of 100 processors and 400 edges takes to compile with our `graph!` and with
//! another one: processor time of the compiler.
//!
//! The crates of both are written below the target directory. Their dependencies are built before
//! the first measured build.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROCESSORS: usize = 100;
const EDGES: usize = 400;

/// An error is a sentence.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One of the two crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The crate with the `graph!` of the workspace.
    Ours,
    /// The crate with the other one.
    Theirs,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }
}

/// The written crates.
#[derive(Clone, Debug)]
pub struct Crates {
    directory: PathBuf,
    profile: String,
}

impl Crates {
    /// Writes the crates and builds each once, so that later builds find the dependencies built.
    ///
    /// `root` is the workspace whose rast-msgpass is measured. `prototype` is the source of a
    /// library with a macro `graph!` of the same form. `profile` is `check`, `dev` or `release`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or a crate does not compile.
    pub fn write(root: Option<&Path>, prototype: Option<&Path>, profile: &str) -> Result<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = root.unwrap_or(&own).canonicalize()?;
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or(root.join("target"), PathBuf::from);
        let crates = Self {
            directory: target.join("compile-graph"),
            profile: profile.to_owned(),
        };
        write_crates(&crates.directory, &root, prototype)?;
        crates.build(Side::Ours)?;
        if prototype.is_some() {
            crates.build(Side::Theirs)?;
        }
        Ok(crates)
    }

    /// Compiles one crate anew; returns the processor time of the compiler in seconds.
    ///
    /// # Errors
    ///
    /// If the crate does not compile.
    pub fn build(&self, side: Side) -> Result<f64> {
        let (dir, name) = (&self.directory, side.name());
        let file = dir.join(name).join("src/main.rs");
        fs::write(&file, fs::read(&file)?)?;
        let mut cargo = Command::new(env!("CARGO"));
        match self.profile.as_str() {
            "check" => cargo.arg("check"),
            "dev" => cargo.arg("build"),
            "release" => cargo.args(["build", "--release"]),
            other => return Err(format!("unknown profile {other}").into()),
        };
        cargo
            .args(["--offline", "--quiet", "-p", name])
            .current_dir(dir)
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .env("CARGO_INCREMENTAL", "0")
            .stdout(Stdio::null());
        let before = children()?;
        match cargo.status()?.success() {
            true => Ok(children()? - before),
            false => Err(format!("{name} does not compile").into()),
        }
    }
}

/// The processor time of all children that have ended, in seconds; on Linux alone.
fn children() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may hold spaces.
    let fields = stat.rsplit(')').next().ok_or("no fields")?;
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: Vec<f64> = ticks
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    // The kernel reports hundredths of a second to programs, whatever its own tick is.
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// The edges: each from a processor to a later one, with the number of its message.
fn edges() -> Vec<(usize, usize, usize)> {
    let mut edges = Vec::new();
    for message in 0.. {
        for from in 0..PROCESSORS {
            // Four later processors for each message.
            let to = from + 1 + message % 4;
            if to < PROCESSORS && edges.len() < EDGES {
                edges.push((from, to, message));
            }
        }
        if edges.len() == EDGES {
            break;
        }
    }
    edges
}

fn write_crates(dir: &Path, root: &Path, prototype: Option<&Path>) -> Result<()> {
    let members = match prototype {
        Some(_) => "\"ours\", \"theirs\", \"api\"",
        None => "\"ours\"",
    };
    let write = |path: &str, text: &str| -> Result<()> {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().ok_or("a file has a parent")?)?;
        Ok(fs::write(path, text)?)
    };
    write(
        "Cargo.toml",
        &format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n"),
    )?;
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    let manifest = |name: &str, dependency: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [dependencies]\n{dependency}\n"
        )
    };
    let msgpass = root.join("crates/rast-msgpass");
    let ours = format!("api = {{ package = \"rast-msgpass\", path = {msgpass:?} }}");
    write("ours/Cargo.toml", &manifest("ours", &ours))?;
    let start = (0..PROCESSORS)
        .map(|at| format!("P{at}(0)"))
        .collect::<Vec<_>>()
        .join(", ");
    let main = format!(
        "fn main() {{ println!(\"{{}}\", App::builder({start}).start().unwrap().stop()); }}"
    );
    write("ours/src/main.rs", &program(&main, false))?;
    if let Some(prototype) = prototype {
        write(
            "theirs/Cargo.toml",
            &manifest("theirs", "api = { path = \"../api\" }"),
        )?;
        write("api/Cargo.toml", &manifest("api", ""))?;
        write("api/src/lib.rs", &fs::read_to_string(prototype)?)?;
        let main = format!(
            "fn main() {{ let mut nodes = ({start}); let q = <App as Graph>::Queues::default();
             for n in 0..App::NODES.len() {{ App::ping(&mut nodes, &q, n); }}
             for e in 0..App::EDGES.len() {{ while App::deliver(&mut nodes, &q, e) {{}} }}
             println!(\"{{}}\", nodes.99.0); }}"
        );
        write("theirs/src/main.rs", &program(&main, true))?;
    }
    Ok(())
}

/// The program of the graph, with this `main`. The two macros differ in what a ping returns.
fn program(main: &str, is_prototype: bool) -> String {
    let edges = edges();
    let messages = edges.iter().map(|edge| edge.2).max().unwrap_or(0);
    let (name, returns, next) = match is_prototype {
        true => ("Graph", "", ""),
        false => ("Next", "-> Next", "Next::Idle"),
    };
    let mut text = format!(
        "#![recursion_limit = \"4096\"]\n#![allow(unused)]\n\
         use api::{{graph, {name}, Cx, Process, Receive}};\n"
    );
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a string takes all");
        text.push('\n');
    };
    for message in 0..=messages {
        line(format_args!("pub struct M{message}(u64);"));
    }
    for at in 0..PROCESSORS {
        line(format_args!("pub struct P{at}(u64);"));
    }
    line(format_args!("graph! {{ pub graph App {{ processors {{"));
    for at in 0..PROCESSORS {
        let source = if at == 0 && !is_prototype {
            " [source]"
        } else {
            ""
        };
        line(format_args!("p{at}: P{at}{source},"));
    }
    line(format_args!("}} edges {{"));
    for (from, to, message) in &edges {
        line(format_args!("p{from} -> p{to}: M{message};"));
    }
    line(format_args!("}} }} }}"));
    let first = |from: usize| edges.iter().find(|edge| edge.0 == from);
    for at in 0..PROCESSORS {
        let ping = first(0).filter(|_| at == 0).map(|(_, to, message)| {
            format!(
                "fn ping(&mut self, cx: &mut Cx<'_, App, Self>) {returns} \
                 {{ cx.to::<P{to}>().send(M{message}(1)); {next} }}"
            )
        });
        let ping = ping.unwrap_or_default();
        line(format_args!("impl Process<App> for P{at} {{ {ping} }}"));
    }
    for (from, to, message) in &edges {
        let send = first(*to).map_or(String::new(), |(_, next, message)| {
            format!("cx.to::<P{next}>().send(M{message}(self.0));")
        });
        line(format_args!(
            "impl Receive<App, P{from}, M{message}> for P{to} {{ \
             fn receive(&mut self, m: M{message}, cx: &mut Cx<'_, App, Self>) \
             {{ self.0 += m.0; {send} }} }}"
        ));
    }
    line(format_args!("{main}"));
    text
}
