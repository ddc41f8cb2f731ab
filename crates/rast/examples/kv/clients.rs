//! The clients of all I/O processors: what CLIENT LIST shows and CLIENT KILL ends.
//!
//! Each connection has one [`Client`], which its own I/O processor writes and any thread may read.
//! The list is locked when a connection begins or ends, and by the commands that read it. A command
//! on data takes no lock.
//!
//! To end a connection of another processor, a processor leaves the connection's id in the list of
//! that processor, and wakes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rast::primitive::sync::Mutex;

use crate::message::ConnectionId;
use crate::route::IOS;

/// What a client has said about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
    /// CLIENT SETINFO lib-name.
    pub(crate) library: Vec<u8>,
    /// CLIENT SETINFO lib-ver.
    pub(crate) version: Vec<u8>,
}

/// Where a client's connection runs and what it connects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its number among all connections, from one.
    pub(crate) number: u64,
    /// Its I/O processor.
    pub(crate) io: u16,
    /// Its name in that processor.
    pub(crate) id: ConnectionId,
    /// The client's address.
    pub(crate) address: SocketAddr,
    /// The server's address.
    pub(crate) local: SocketAddr,
    /// The number of its file descriptor; -1 where there are none.
    pub(crate) descriptor: i32,
}

/// One client. Its figures are only shown to people. Relaxed suffices for all of them, because
/// nothing else depends on them.
#[derive(Debug)]
pub(crate) struct Client {
    /// Where it is.
    pub(crate) place: Place,
    since: Instant,
    words: Mutex<Words>,
    /// Milliseconds from `since` to its last bytes.
    last: AtomicU64,
    /// The place of its last command in the list of names, plus one.
    command: AtomicUsize,
    input: AtomicUsize,
    output: AtomicUsize,
    held: AtomicUsize,
    third: AtomicBool,
    no_evict: AtomicBool,
    no_touch: AtomicBool,
    /// CLIENT KILL has named it.
    doomed: AtomicBool,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            since: Instant::now(),
            words: Mutex::new(Words::default()),
            last: AtomicU64::new(0),
            command: AtomicUsize::new(0),
            input: AtomicUsize::new(0),
            output: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            third: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            doomed: AtomicBool::new(false),
        }
    }

    /// Its number as CLIENT ID reports it.
    pub(crate) fn number(&self) -> i64 {
        i64::try_from(self.place.number).unwrap_or(i64::MAX)
    }

    /// What it has said about itself.
    pub(crate) fn words(&self) -> Words {
        self.words.lock().clone()
    }

    /// Changes what it has said about itself.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Words)) {
        change(&mut self.words.lock());
    }

    /// Takes note that bytes have arrived.
    pub(crate) fn heard(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Takes note of a command, by its place in the list of names.
    pub(crate) fn ran(&self, command: usize) {
        self.command.store(command + 1, Ordering::Relaxed);
    }

    /// Takes note of what its buffers hold.
    pub(crate) fn holds(&self, input: usize, output: usize, held: usize) {
        self.input.store(input, Ordering::Relaxed);
        self.output.store(output, Ordering::Relaxed);
        self.held.store(held, Ordering::Relaxed);
    }

    /// Takes note of the protocol that it has chosen.
    pub(crate) fn speaks_third(&self, third: bool) {
        self.third.store(third, Ordering::Relaxed);
    }

    /// Takes note of CLIENT NO-EVICT.
    pub(crate) fn set_no_evict(&self, on: bool) {
        self.no_evict.store(on, Ordering::Relaxed);
    }

    /// Takes note of CLIENT NO-TOUCH.
    pub(crate) fn set_no_touch(&self, on: bool) {
        self.no_touch.store(on, Ordering::Relaxed);
    }

    /// Forgets all that RESET forgets.
    pub(crate) fn reset(&self) {
        self.tell(|words| words.name.clear());
        self.speaks_third(false);
        self.set_no_touch(false);
    }

    /// Writes its line as CLIENT LIST shows it.
    pub(crate) fn describe(&self, names: &[&str], text: &mut String) {
        let place = &self.place;
        let words = self.words();
        let age = self.since.elapsed();
        let idle = (age.as_millis() as u64).saturating_sub(self.last.load(Ordering::Relaxed));
        let flags = match (
            self.no_evict.load(Ordering::Relaxed),
            self.no_touch.load(Ordering::Relaxed),
        ) {
            (false, false) => "N",
            (true, false) => "e",
            (false, true) => "T",
            (true, true) => "eT",
        };
        let command = self.command.load(Ordering::Relaxed).checked_sub(1);
        let command = command.and_then(|at| names.get(at)).unwrap_or(&"NULL");
        // Names hold printable bytes alone.
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 \
             ssub=0 multi=-1 qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} oll=0 \
             omem=0 tot-mem={} events=r cmd={command} user=default redir=-1 resp={} lib-name={} \
             lib-ver={}",
            place.number,
            place.address,
            place.local,
            place.descriptor,
            shown(&words.name),
            age.as_secs(),
            idle / 1000,
            self.input.load(Ordering::Relaxed),
            self.output.load(Ordering::Relaxed),
            self.held.load(Ordering::Relaxed),
            2 + u8::from(self.third.load(Ordering::Relaxed)),
            shown(&words.library),
            shown(&words.version),
        );
    }
}

/// Which clients CLIENT KILL ends; what is not given matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// ID.
    pub(crate) number: Option<u64>,
    /// ADDR.
    pub(crate) address: Option<Vec<u8>>,
    /// LADDR.
    pub(crate) local: Option<Vec<u8>>,
    /// No client is of the type that was asked for.
    pub(crate) none: bool,
    /// SKIPME: the client that asks is left alone.
    pub(crate) spares_asker: bool,
}

impl Filter {
    fn matches(&self, client: &Client) -> bool {
        let same = |given: &Option<Vec<u8>>, address: SocketAddr| {
            given
                .as_ref()
                .is_none_or(|given| *given == address.to_string().into_bytes())
        };
        !self.none
            && self
                .number
                .is_none_or(|number| number == client.place.number)
            && same(&self.address, client.place.address)
            && same(&self.local, client.place.local)
    }
}

/// Wakes an I/O processor.
pub(crate) type WakeIo = Box<dyn Fn(u16) + Send + Sync>;

/// All clients.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Per I/O processor, connections that it has to close.
    doomed: [Mutex<Vec<ConnectionId>>; IOS],
    /// Set once, before the graph runs.
    pub(crate) wake: OnceLock<WakeIo>,
}

impl Clients {
    /// Puts a client on the list.
    pub(crate) fn join(&self, client: &Arc<Client>) {
        let number = client.place.number;
        self.all.lock().insert(number, Arc::clone(client));
    }

    /// Takes a client off the list.
    pub(crate) fn leave(&self, client: &Client) {
        self.all.lock().remove(&client.place.number);
    }

    /// The lines of all clients, or of those with these numbers; ends once there are
    /// more than `most` bytes.
    pub(crate) fn list(&self, only: Option<&[u64]>, names: &[&str], most: usize) -> String {
        let all = self.all.lock();
        let mut text = String::new();
        let mut add = |client: &Arc<Client>| {
            if text.len() <= most {
                client.describe(names, &mut text);
            }
        };
        match only {
            None => all.values().for_each(&mut add),
            Some(numbers) => numbers
                .iter()
                .filter_map(|number| all.get(number))
                .for_each(&mut add),
        }
        text
    }

    /// Asks the processors of the clients that match to close each of them once. Returns the number
    /// of these clients, and whether the calling client `asker`, which is not closed here, is one
    /// of them.
    pub(crate) fn kill(&self, filter: &Filter, asker: u64) -> (i64, bool) {
        let (mut killed, mut own) = (0, false);
        for client in self.all.lock().values() {
            let itself = client.place.number == asker;
            if !filter.matches(client) || itself && filter.spares_asker {
                continue;
            }
            if itself {
                killed += 1;
                own = true;
                continue;
            }
            // Until its processor closes it, it is on the list.
            if client.doomed.swap(true, Ordering::Relaxed) {
                continue;
            }
            killed += 1;
            let io = client.place.io;
            if let Some(doomed) = self.doomed.get(usize::from(io)) {
                doomed.lock().push(client.place.id);
                if let Some(wake) = self.wake.get() {
                    wake(io);
                }
            }
        }
        (killed, own)
    }

    /// Takes the connections that an I/O processor has to close.
    pub(crate) fn take_doomed(&self, io: u16) -> Vec<ConnectionId> {
        let doomed = self.doomed.get(usize::from(io));
        doomed.map_or_else(Vec::new, |doomed| std::mem::take(&mut *doomed.lock()))
    }
}

#[cfg(test)]
impl Client {
    /// A client that is on no list.
    pub(crate) fn unlisted(number: u64) -> Arc<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], 40_000 + number as u16));
        Arc::new(Self::new(Place {
            number,
            io: 0,
            id: ConnectionId {
                slot: number as u32,
                generation: 0,
            },
            address,
            local: SocketAddr::from(([127, 0, 0, 1], 6380)),
            descriptor: -1,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_those_who_are_there() {
        let clients = Clients::default();
        let (one, two) = (Client::unlisted(1), Client::unlisted(2));
        clients.join(&one);
        clients.join(&two);
        two.tell(|words| words.name = b"me".to_vec());
        two.ran(0);
        let text = clients.list(None, &["get"], 10_000);
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.starts_with("id=")), "{text}");
        let text = clients.list(Some(&[2, 7]), &["get"], 10_000);
        assert_eq!(text.lines().count(), 1);
        assert!(
            text.contains(" name=me ") && text.contains(" cmd=get "),
            "{text}"
        );
        clients.leave(&two);
        assert_eq!(clients.list(Some(&[2]), &[], 10_000), "");
        let many = clients.list(Some(&[1; 100]), &[], 1000);
        assert!((1000..2000).contains(&many.len()), "{}", many.len());
    }

    #[test]
    fn a_kill_reaches_the_processors_of_its_clients() {
        let clients = Clients::default();
        let (one, two) = (Client::unlisted(1), Client::unlisted(2));
        clients.join(&one);
        clients.join(&two);
        let by_address = Filter {
            address: Some(b"127.0.0.1:40002".to_vec()),
            ..Filter::default()
        };
        assert_eq!(clients.kill(&by_address, 1), (1, false));
        // Not closed yet, and not named a second time.
        assert_eq!(clients.kill(&by_address, 1), (0, false));
        assert_eq!(clients.take_doomed(0), [two.place.id]);
        assert!(clients.take_doomed(0).is_empty());
        clients.leave(&two);
        clients.join(&Client::unlisted(3));
        let all = Filter {
            spares_asker: true,
            ..Filter::default()
        };
        assert_eq!(clients.kill(&all, 1), (1, false));
        assert_eq!(clients.kill(&Filter::default(), 1), (1, true));
        let none = Filter {
            none: true,
            ..Filter::default()
        };
        assert_eq!(clients.kill(&none, 1), (0, false));
    }
}
