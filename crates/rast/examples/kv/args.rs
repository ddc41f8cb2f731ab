//! The command line: settings with their defaults, and the text of `--help`.

use std::time::Duration;

use crate::resp::FrameLimits;
use crate::route::IOS;

/// Bytes of a line: an inline command or the header of a frame.
const LINE: usize = 64 * 1024;
/// Arguments of one command.
const ARGUMENTS: usize = 1024 * 1024;

/// The most worker threads.
const WORKERS: usize = 64;

/// The limits that the server keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most connections at a time.
    pub(crate) connections: usize,
    /// Most bytes of one command, and of one value.
    pub(crate) frame: usize,
    /// Most bytes of replies that a connection has not read.
    pub(crate) backlog: usize,
    /// Most commands of one connection under way.
    pub(crate) in_flight: usize,
    /// Most bytes of keys and values.
    pub(crate) memory: usize,
    /// Most bytes of the buffers of all connections.
    pub(crate) buffers: usize,
}

impl Limits {
    /// The limits of one frame.
    pub(crate) fn frame_limits(&self) -> FrameLimits {
        FrameLimits {
            bulk: self.frame,
            arguments: ARGUMENTS,
            line: LINE,
            frame: self.frame,
        }
    }
}

/// All settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The port on 127.0.0.1; zero takes a free one.
    pub(crate) port: u16,
    /// Worker threads of the graph. The default leaves one processor to the network of the system
    /// and to clients; the demonstration, whose balancer needs two workers, takes all processors.
    pub(crate) workers: usize,
    /// The limits.
    pub(crate) limits: Limits,
    /// How often the balancer looks at the loads.
    pub(crate) reshard: Duration,
    /// How long SIGTERM may take.
    pub(crate) drain: Duration,
    /// Show the running graph in the terminal.
    pub(crate) tui: bool,
    /// Run the demonstration for so long, with a uniform phase behind it.
    pub(crate) demo: Option<Demo>,
}

/// How the demonstration runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demo {
    /// How long the skewed load runs.
    pub(crate) span: Duration,
    /// Connections that carry it.
    pub(crate) clients: usize,
}

impl Settings {
    /// I/O processors: one per worker, as far as there are any.
    pub(crate) fn ios(&self) -> usize {
        self.workers.min(IOS)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: 6380,
            workers: (cores() - 1).clamp(1, WORKERS),
            limits: Limits {
                connections: 1024,
                frame: 8 << 20,
                backlog: 16 << 20,
                in_flight: 1024,
                memory: 1 << 30,
                buffers: 256 << 20,
            },
            reshard: Duration::from_millis(200),
            drain: Duration::from_secs(5),
            tui: false,
            demo: None,
        }
    }
}

/// Processors that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Run with these settings.
    Run(Settings),
    /// Print this text.
    Help(String),
}

/// Reads the arguments behind the program's name; the error says what is wrong.
pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut settings = Settings::default();
    let mut port = None;
    let mut workers = None;
    let mut demo = false;
    let mut seconds = None;
    let mut clients = None;
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let (flag, mut given) = match argument.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (argument.clone(), None),
        };
        let mut value = || {
            given
                .take()
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("{flag} needs a value"))
        };
        let limits = &mut settings.limits;
        match flag.as_str() {
            "--help" | "-h" => return Ok(Asked::Help(help())),
            "--port" | "-p" => port = Some(number(&flag, &value()?, 0, u16::MAX)?),
            "--workers" => workers = Some(number(&flag, &value()?, 1, WORKERS)?),
            "--max-connections" => limits.connections = number(&flag, &value()?, 1, 1 << 20)?,
            "--max-frame" => limits.frame = size(&flag, &value()?, 1 << 10, 1 << 30)?,
            "--max-backlog" => limits.backlog = size(&flag, &value()?, 1 << 10, 1 << 32)?,
            "--max-in-flight" => limits.in_flight = number(&flag, &value()?, 1, 1 << 20)?,
            "--maxmemory" => limits.memory = size(&flag, &value()?, 1 << 20, 1 << 46)?,
            "--max-buffers" => limits.buffers = size(&flag, &value()?, 1 << 20, 1 << 46)?,
            "--reshard-ms" => {
                settings.reshard = Duration::from_millis(number(&flag, &value()?, 10, 60_000)?);
            }
            "--drain-ms" => {
                settings.drain = Duration::from_millis(number(&flag, &value()?, 100, 600_000)?);
            }
            "--demo" => demo = true,
            "--tui" => settings.tui = true,
            "--seconds" => seconds = Some(number(&flag, &value()?, 1, 3600)?),
            "--clients" => clients = Some(number(&flag, &value()?, 1, 256)?),
            _ => {
                return Err(format!(
                    "unknown argument '{argument}'; --help lists all of them"
                ));
            }
        }
        if let Some(value) = given {
            return Err(format!("{flag} takes no value, but '{value}' was given"));
        }
    }
    if demo && settings.tui {
        return Err("--demo draws a view of its own, without --tui".to_owned());
    }
    if !demo && (seconds.is_some() || clients.is_some()) {
        return Err("--seconds and --clients belong to --demo".to_owned());
    }
    if let Some(workers) = workers.or(demo.then(|| cores().min(WORKERS))) {
        settings.workers = workers;
    }
    if let Some(port) = port.or(demo.then_some(0)) {
        settings.port = port;
    }
    if demo {
        let span = Duration::from_secs(seconds.unwrap_or(8));
        settings.demo = Some(Demo {
            span,
            clients: clients.unwrap_or(4),
        });
    }
    Ok(Asked::Run(settings))
}

fn number<T>(flag: &str, text: &str, least: T, most: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    text.parse()
        .ok()
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| format!("{flag} takes a number from {least} to {most}, not '{text}'"))
}

/// A number of bytes; `kb`, `mb` and `gb` are powers of 1024, as in Redis.
fn size(flag: &str, text: &str, least: u64, most: u64) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => lower.split_at(at),
        None => (lower.as_str(), ""),
    };
    let shift = match unit {
        "" | "b" => Some(0),
        "k" | "kb" => Some(10),
        "m" | "mb" => Some(20),
        "g" | "gb" => Some(30),
        _ => None,
    };
    shift
        .and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift))
        .filter(|bytes| (least..=most).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| {
            let (least, most) = (shown(least), shown(most));
            format!("{flag} takes a size from {least} to {most}, not '{text}'")
        })
}

/// A number of bytes in the largest unit that divides it.
pub(crate) fn shown(bytes: u64) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}b")
}

fn help() -> String {
    let settings = Settings::default();
    let (port, workers, limits) = (settings.port, settings.workers, settings.limits);
    let size = |bytes: usize| shown(bytes as u64);
    format!(
        "\
kv: a sharded in-memory store that speaks RESP2 and RESP3, on RAST.

Usage: kv [OPTIONS]

  --port N             port on 127.0.0.1; 0 takes a free one [{port}]
  --workers N          worker threads; the first 8 have sockets [{workers}]
  --max-connections N  connections at a time; one more is refused [{}]
  --max-frame SIZE     one command, and one value; past it the connection is closed [{}]
  --max-backlog SIZE   unread replies of one connection; past it, it is closed [{}]
  --max-in-flight N    commands of one connection under way; past it, it is not read [{}]
  --maxmemory SIZE     keys and values; past it writes are refused with OOM [{}]
  --max-buffers SIZE   buffers of all connections; past it, the largest is closed [{}]
  --reshard-ms N       how often the balancer looks at the loads [{}]
  --drain-ms N         how long SIGINT and SIGTERM may take [{}]
  --tui                show the running graph in the terminal, until q [off]
  --demo               drive a server on a free port with a skewed load, watch it, check it [off]
  --seconds N          how long the demo's skewed load runs [8]
  --clients N          connections of the demo [4]
  --help               this text

Other limits: {} per line, {ARGUMENTS} arguments per command.
A SIZE is bytes, or a number with kb, mb or gb. Defaults are in brackets.
A first SIGINT or SIGTERM drains, a second one ends at once.
",
        limits.connections,
        size(limits.frame),
        size(limits.backlog),
        limits.in_flight,
        size(limits.memory),
        size(limits.buffers),
        settings.reshard.as_millis(),
        settings.drain.as_millis(),
        size(LINE),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Result<Settings, String> {
        match read(line.split_whitespace().map(str::to_owned))? {
            Asked::Run(settings) => Ok(settings),
            Asked::Help(text) => Err(text),
        }
    }

    #[test]
    fn flags_take_values_in_both_forms() {
        let settings = given("--port 0 --workers=3 --maxmemory 64mb").expect("well-formed");
        assert_eq!((settings.port, settings.workers), (0, 3));
        assert_eq!(settings.limits.memory, 64 << 20);
        assert!(settings.demo.is_none());
        let default = Settings::default().workers;
        assert!(default == 1 || default < cores(), "one is left");
        let demonstration = given("--demo").expect("well-formed").workers;
        assert_eq!(demonstration, cores().min(WORKERS));
        let demo = given("--demo --seconds 2")
            .expect("well-formed")
            .demo
            .expect("a demo");
        assert_eq!(demo.span, Duration::from_secs(2));
        assert_eq!(given("--demo").expect("well-formed").port, 0);
        assert_eq!(given("--port 7 --demo").expect("well-formed").port, 7);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("--port", "--port needs a value"),
            ("--port x", "--port takes a number from 0 to 65535, not 'x'"),
            (
                "--port 70000",
                "--port takes a number from 0 to 65535, not '70000'",
            ),
            (
                "--workers 0",
                "--workers takes a number from 1 to 64, not '0'",
            ),
            (
                "--maxmemory 5tb",
                "--maxmemory takes a size from 1mb to 65536gb, not '5tb'",
            ),
            ("--demo=1", "--demo takes no value, but '1' was given"),
            (
                "--what",
                "unknown argument '--what'; --help lists all of them",
            ),
            (
                "--demo --tui",
                "--demo draws a view of its own, without --tui",
            ),
            ("--seconds 1", "--seconds and --clients belong to --demo"),
        ];
        for (line, words) in cases {
            assert_eq!(given(line).map(|_| ()), Err(words.to_owned()), "{line}");
        }
    }

    #[test]
    fn help_names_every_limit_with_its_number() {
        let text = given("--help").expect_err("the text");
        for piece in [
            "[1024]",
            "[8mb]",
            "[16mb]",
            "[1gb]",
            "[256mb]",
            "64kb per line",
        ] {
            assert!(text.contains(piece), "{piece} is missing in:\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}
