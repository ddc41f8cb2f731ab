//! One connection: bytes in, requests to the partitions, replies out in order.
//!
//! ```text
//!  bytes ─▶ parser ─▶ command ─┬─ local ───────────────┐
//!                              └─ outbox ─▶ partitions │
//!                                                 │    ▼
//!                    ring: one slot per command, in order of arrival
//!                        │
//!                        ▼
//!                     output ─▶ socket
//! ```
//!
//! Rules:
//!
//! 1. Replies leave in the order of the commands (see `ring`).
//! 2. The connection is read only while the ring has fewer than `in_flight` commands, and their
//!    arguments have fewer than `frame` bytes. So the arguments exceed `frame` bytes by at most one
//!    command. While the connection is not read, TCP slows the client.
//! 3. If a full partition refuses requests, they wait in the outbox, in order. Nothing is parsed
//!    before the outbox is empty. So two commands of one connection to one key arrive in the order
//!    in which they were sent.
//! 4. A reply of a partition is always accepted. If the output and the replies in the ring exceed
//!    `backlog` bytes, the connection is closed. The connection counts the memory of all its
//!    buffers. If all connections together exceed their limit, `io` closes those with the largest
//!    buffers.
//! 5. A web page can make a browser send an HTTP request here. A command named `POST` or `Host:`
//!    ends the connection at once, so no later line of the request is executed.
//! 6. The replies to commands that were read together are written together: by one system call,
//!    once all these commands are answered or the output has [`OUTPUT_SENT`] bytes.
//!
//! Nothing here knows sockets or threads: `io` moves the bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clients::Client;
use crate::command::{self, Command};
use crate::encode;
use crate::gather::{self, Gather};
use crate::local::{self, Session, Then};
use crate::memory::Account;
use crate::message::{Address, Body, ConnectionId, Op, Request};
use crate::resp::{ARGUMENT_COST, Argument, Parser};
use crate::ring::{Answer, Ring, Taken};
use crate::shared::Shared;

/// The way into the partitions.
pub(crate) trait Door {
    /// Hands a request to a partition, or gives it back.
    ///
    /// # Errors
    ///
    /// The request, if the partition has no room for it.
    fn enter(&mut self, partition: usize, request: Request) -> Result<(), Request>;
}

/// Why a connection was given up with replies unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client reads too slowly: its output is past the limit.
    Backlog,
    /// The buffers of all connections are past their limit.
    Buffers,
    /// What arrives is not meant for this server: rule 5.
    Foreign,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    session: Session,
    parser: Parser,
    /// Bytes that were read but could not be parsed yet, from `input_at` on.
    input: Vec<u8>,
    input_at: usize,
    outbox: VecDeque<(usize, Request)>,
    ring: Ring,
    /// Requests that entered a partition and were not answered.
    entered: usize,
    /// Requests that ever entered a partition.
    requests: u64,
    /// Commands that are not counted yet.
    commands: u64,
    output: Vec<u8>,
    output_at: usize,
    /// The output is to be sent when all commands before this number are answered.
    batch_end: u64,
    /// No bytes will come any more: parse what is here, answer it, close.
    last_input: bool,
    /// No command will be parsed any more: answer what is under way, close.
    ending: bool,
    fault: Option<Fault>,
    buffers: Account,
}

/// Output buffers above this capacity are given back once they are empty.
const OUTPUT_KEPT: usize = 64 * 1024;

/// Output above this size is sent at once.
const OUTPUT_SENT: usize = 16 * 1024;

impl Connection {
    /// The connection of `client`.
    pub(crate) fn new(client: Arc<Client>, shared: &Shared) -> Self {
        Self {
            id: client.place.id,
            session: Session::new(client),
            parser: Parser::new(shared.settings.limits.frame_limits()),
            input: Vec::new(),
            input_at: 0,
            outbox: VecDeque::new(),
            ring: Ring::default(),
            entered: 0,
            requests: 0,
            commands: 0,
            output: Vec::new(),
            output_at: 0,
            batch_end: 0,
            last_input: false,
            ending: false,
            fault: None,
            buffers: Account::new(&shared.buffers),
        }
    }

    /// This connection's name.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Whose connection it is.
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.session.client
    }

    /// Whether bytes may be read from the socket and given to [`receive`].
    ///
    /// [`receive`]: Self::receive
    pub(crate) fn wants_input(&self, shared: &Shared) -> bool {
        self.input.is_empty() && !self.last_input && self.may_parse(shared)
    }

    /// Whether requests wait for a full partition.
    pub(crate) fn is_parked(&self) -> bool {
        !self.outbox.is_empty() && self.fault.is_none()
    }

    /// How many requests have entered a partition.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Why the connection must be closed at once, if it must.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether everything that will ever be answered is written and sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.ending && self.ring.is_empty() && self.output().is_empty()
    }

    /// Whether every command that was parsed has its reply in the output.
    #[cfg(test)]
    pub(crate) fn is_answered(&self) -> bool {
        self.ring.is_empty()
    }

    /// The bytes to send.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output[self.output_at..]
    }

    /// Whether the output is to be sent now: rule 6. The next batch begins then.
    pub(crate) fn has_batch(&mut self) -> bool {
        if self.output().is_empty() {
            return false;
        }
        if self.ring.first() >= self.batch_end {
            self.batch_end = self.ring.next();
            return true;
        }
        self.output().len() >= OUTPUT_SENT
    }

    /// Takes note that the first `count` bytes of the output were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.output_at += count;
        if self.output_at == self.output.len() {
            self.output_at = 0;
            self.output.clear();
            if self.output.capacity() > OUTPUT_KEPT {
                self.output = Vec::new();
            }
            self.charge();
        } else if self.output_at >= OUTPUT_KEPT && self.output_at >= self.output.len() / 2 {
            // If a client always has outstanding replies, the output never becomes empty. So the
            // sent bytes are removed here. This moves at most one byte per sent byte.
            self.output.drain(..self.output_at);
            self.output_at = 0;
        }
    }

    /// Takes in bytes from the socket and acts on the commands that are whole.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], door: &mut dyn Door, shared: &Shared) {
        self.consume(&mut bytes, door, shared);
        if !bytes.is_empty() && !self.ending {
            self.input = bytes.to_vec();
            self.input_at = 0;
        }
        self.charge();
    }

    /// Goes on after back-pressure: sends parked requests, then parses what waits.
    pub(crate) fn resume(&mut self, door: &mut dyn Door, shared: &Shared) {
        if self.input.is_empty() && self.outbox.is_empty() && !self.last_input {
            return self.charge();
        }
        let input = std::mem::take(&mut self.input);
        let mut rest = input.get(self.input_at..).unwrap_or_default();
        self.consume(&mut rest, door, shared);
        if !rest.is_empty() && !self.ending {
            self.input_at = input.len() - rest.len();
            self.input = input;
        }
        self.charge();
    }

    /// The client sends no more, or the server reads no more: what was read is
    /// still answered.
    pub(crate) fn end_input(&mut self, door: &mut dyn Door, shared: &Shared) {
        self.last_input = true;
        self.resume(door, shared);
    }

    /// Takes in the reply of a partition; the next `resume` accounts for it.
    pub(crate) fn reply(&mut self, to: Address, body: Body, shared: &Shared) {
        self.entered -= 1;
        if self.fault.is_some() {
            // The connection is closed at its next turn; until then nothing grows.
            return;
        }
        debug_assert_eq!(to.connection, self.id, "a reply belongs to its connection");
        let most = shared.settings.limits.backlog;
        match self.ring.take(to.sequence, body, most, shared) {
            Taken::Later => {}
            Taken::First => self.ring.write_done(&mut self.output),
            Taken::TooMuch => self.fault = Some(Fault::Backlog),
        }
        self.bound_output(shared);
    }

    /// Ends the connection. Returns the number of its requests that the partitions have not
    /// answered, and the account that is charged with their arguments.
    pub(crate) fn leave(mut self) -> Option<(usize, Account)> {
        self.buffers.set(self.ring.under_way());
        (self.entered > 0).then_some((self.entered, self.buffers))
    }

    /// Bytes that this connection's buffers hold.
    pub(crate) fn buffered(&self) -> u64 {
        self.buffers.held()
    }

    /// Accounts for the buffers.
    fn charge(&mut self) {
        let bytes = self.input.capacity()
            + self.parser.held()
            + self.parser.kept()
            + self.ring.under_way()
            + self.ring.held()
            + self.output.capacity()
            + self.ring.occupied();
        self.buffers.set(bytes);
    }

    /// Stores the sizes of the buffers for the list of clients. It is called after a write, so that
    /// a client that has its reply does not find the reply counted there.
    pub(crate) fn show(&self) {
        let waiting = self.input.len() + self.parser.held();
        let held = usize::try_from(self.buffers.held()).unwrap_or(usize::MAX);
        let client = &self.session.client;
        client.holds(waiting, self.output().len(), held);
    }

    fn may_parse(&self, shared: &Shared) -> bool {
        let limits = &shared.settings.limits;
        !self.ending
            && self.fault.is_none()
            && self.outbox.is_empty()
            && self.ring.len() < limits.in_flight
            && self.ring.under_way() < limits.frame
    }

    fn consume(&mut self, input: &mut &[u8], door: &mut dyn Door, shared: &Shared) {
        let begins = self.ring.first() >= self.batch_end && self.output().is_empty();
        self.send_parked(door);
        while self.may_parse(shared) {
            match self.parser.parse(input) {
                Ok(Some(mut frame)) => {
                    self.execute(&mut frame, door, shared);
                    self.parser.give_back(frame);
                    self.bound_output(shared);
                }
                Ok(None) => {
                    self.ending = self.last_input;
                    break;
                }
                Err(error) => {
                    shared.counters.protocol_errors.add(1);
                    self.answer(|out| encode::error(out, error.line()));
                    self.ending = true;
                    *input = &[];
                    break;
                }
            }
        }
        self.bound_output(shared);
        // Counted together: each processor counts in the same place.
        let commands = std::mem::take(&mut self.commands);
        if commands > 0 {
            shared.counters.commands.add(commands);
        }
        if begins {
            self.batch_end = self.ring.next();
        }
    }

    fn send(&mut self, partition: usize, request: Request, door: &mut dyn Door) {
        debug_assert!(
            self.outbox.is_empty(),
            "nothing is parsed while requests wait"
        );
        match door.enter(partition, request) {
            Ok(()) => {
                self.entered += 1;
                self.requests += 1;
            }
            Err(request) => self.outbox.push_back((partition, request)),
        }
    }

    fn send_parked(&mut self, door: &mut dyn Door) {
        while let Some((partition, request)) = self.outbox.pop_front() {
            match door.enter(partition, request) {
                Ok(()) => {
                    self.entered += 1;
                    self.requests += 1;
                }
                Err(request) => {
                    self.outbox.push_front((partition, request));
                    return;
                }
            }
        }
    }

    fn execute(&mut self, frame: &mut [Argument], door: &mut dyn Door, shared: &Shared) {
        self.commands += 1;
        let cost = frame
            .iter()
            .map(|argument| argument.len() + ARGUMENT_COST)
            .sum();
        if frame.first().is_some_and(|name| command::is_foreign(name)) {
            shared.counters.protocol_errors.add(1);
            self.fault = Some(Fault::Foreign);
            return;
        }
        let (name, command) = command::parse(frame);
        if let Some(name) = name {
            self.session.client.ran(name);
        }
        match command {
            Err(refusal) => self.answer(|out| encode::error(out, refusal)),
            Ok(Command::Local(command)) => {
                let mut then = Then::Stay;
                if self.ring.is_empty() {
                    then = local::answer(command, &mut self.session, shared, &mut self.output);
                } else {
                    let mut bytes = Vec::new();
                    then = local::answer(command, &mut self.session, shared, &mut bytes).max(then);
                    self.push_written(bytes);
                }
                self.ending |= then == Then::Close;
            }
            Ok(Command::One(op)) => {
                let partition = op.key().map_or(0, |key| shared.router.partition(key));
                let to = self.push(Answer::Waiting, cost);
                self.send(partition, Request { to, op }, door);
            }
            Ok(Command::Many(many)) => {
                let (gather, parts) = gather::split(many, shared.router);
                self.scatter(gather, parts, cost, door);
            }
            Ok(Command::Every(every)) => {
                let (gather, parts) = gather::spread(every, shared.settings.limits.backlog);
                self.scatter(gather, parts, cost, door);
            }
        }
    }

    fn scatter(
        &mut self,
        gather: Gather,
        parts: Vec<(usize, Op)>,
        cost: usize,
        door: &mut dyn Door,
    ) {
        let to = self.push(Answer::Gathering(Box::new(gather)), cost);
        self.outbox
            .extend(parts.into_iter().map(|(at, op)| (at, Request { to, op })));
        self.send_parked(door);
    }

    /// Opens the slot of the next command.
    fn push(&mut self, answer: Answer, cost: usize) -> Address {
        let sequence = self.ring.open(answer, cost, self.session.protocol);
        Address {
            connection: self.id,
            sequence,
        }
    }

    fn push_written(&mut self, bytes: Vec<u8>) {
        self.push(Answer::Written(bytes), 0);
    }

    /// Answers the newest command at once, behind those that are under way.
    fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.ring.is_empty() {
            write(&mut self.output);
        } else {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.push_written(bytes);
        }
    }

    fn bound_output(&mut self, shared: &Shared) {
        if self.output().len() + self.ring.held() > shared.settings.limits.backlog {
            self.fault = self.fault.or(Some(Fault::Backlog));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rast::primitive::Random;
    use rast::timers::Instant;

    use crate::args::Settings;
    use crate::memory::Memory;
    use crate::route::PARTITIONS;
    use crate::store::Store;

    /// Partitions that answer when told to, in the order that a seed gives.
    struct Partitions {
        queues: Vec<VecDeque<Request>>,
        room: usize,
        stores: Vec<Store>,
        random: Random,
    }

    impl Partitions {
        fn new(room: usize, seed: u64) -> Self {
            let memory = Memory::new(1 << 24);
            Self {
                queues: (0..PARTITIONS).map(|_| VecDeque::new()).collect(),
                room,
                stores: (0..PARTITIONS)
                    .map(|_| Store::new(&memory, &memory, 1 << 20))
                    .collect(),
                random: Random::new(seed),
            }
        }

        /// Lets one random partition answer its first request.
        fn step(&mut self, connection: &mut Connection, shared: &Shared) {
            let start = self.random.below(PARTITIONS);
            for turn in 0..PARTITIONS {
                let at = (start + turn) % PARTITIONS;
                if let Some(request) = self.queues[at].pop_front() {
                    let body = self.stores[at].apply(request.op, Instant::ORIGIN);
                    return connection.reply(request.to, body, shared);
                }
            }
        }
    }

    impl Door for Partitions {
        fn enter(&mut self, partition: usize, request: Request) -> Result<(), Request> {
            if self.queues[partition].len() == self.room {
                return Err(request);
            }
            self.queues[partition].push_back(request);
            Ok(())
        }
    }

    fn set_up(change: impl FnOnce(&mut Settings)) -> (Shared, Connection) {
        let mut settings = Settings::default();
        change(&mut settings);
        let shared = Shared::new(settings);
        let connection = Connection::new(Client::unlisted(1), &shared);
        (shared, connection)
    }

    /// Drives `bytes` through in pieces with replies in random order, and returns
    /// the whole output.
    fn drive(
        bytes: &[u8],
        piece: usize,
        room: usize,
        seed: u64,
        change: impl FnOnce(&mut Settings),
    ) -> String {
        let (shared, mut connection) = set_up(change);
        let mut partitions = Partitions::new(room, seed);
        let mut pieces = bytes.chunks(piece);
        let mut output = Vec::new();
        let mut more = true;
        for _ in 0..10_000_000 {
            if more && connection.wants_input(&shared) {
                match pieces.next() {
                    Some(piece) => connection.receive(piece, &mut partitions, &shared),
                    None => {
                        connection.end_input(&mut partitions, &shared);
                        more = false;
                    }
                }
            }
            if partitions.random.below(2) == 0 {
                partitions.step(&mut connection, &shared);
            }
            connection.resume(&mut partitions, &shared);
            output.extend_from_slice(connection.output());
            connection.sent(connection.output().len());
            if connection.is_finished() {
                assert_eq!(connection.fault(), None);
                assert!(connection.is_answered() && !connection.is_parked());
                drop(connection);
                assert_eq!(shared.buffers.used(), 0);
                return String::from_utf8_lossy(&output).into_owned();
            }
        }
        panic!("the connection never finished");
    }

    fn script() -> (Vec<u8>, String) {
        let mut sent = String::new();
        let mut expected = String::new();
        let mut add = |line: String, reply: String| {
            sent.push_str(&line);
            sent.push_str("\r\n");
            expected.push_str(&reply);
        };
        for number in 0..120 {
            add(format!("SET k{number} v{number}"), "+OK\r\n".to_owned());
            add(
                format!("ECHO {number:03}"),
                format!("$3\r\n{number:03}\r\n"),
            );
            add("INCR n".to_owned(), format!(":{}\r\n", number + 1));
            add(format!("EXISTS k0 k{number} none"), ":2\r\n".to_owned());
            if number % 10 == 0 {
                add("DBSIZE".to_owned(), format!(":{}\r\n", number + 2));
                add(
                    format!("MGET none k{number} n k0"),
                    format!(
                        "*4\r\n$-1\r\n${}\r\nv{number}\r\n${}\r\n{}\r\n$2\r\nv0\r\n",
                        1 + number.to_string().len(),
                        (number + 1).to_string().len(),
                        number + 1
                    ),
                );
            }
        }
        add("FLUSHALL".to_owned(), "+OK\r\n".to_owned());
        add("KEYS *".to_owned(), "*0\r\n".to_owned());
        add("QUIT".to_owned(), "+OK\r\n".to_owned());
        add("PING".to_owned(), String::new());
        (sent.into_bytes(), expected)
    }

    #[test]
    fn replies_come_in_order_whatever_order_the_partitions_take() {
        let (sent, expected) = script();
        for seed in [1, 77, 4242] {
            for (piece, room, in_flight) in [(7, 1, 3), (64, 2, 64), (100_000, 1000, 1000)] {
                let output = drive(&sent, piece, room, seed, |settings| {
                    settings.limits.in_flight = in_flight;
                });
                assert_eq!(
                    output, expected,
                    "seed {seed}, pieces of {piece}, room {room}"
                );
            }
        }
    }

    #[test]
    fn commands_before_the_end_of_the_input_are_answered() {
        let output = drive(b"SET a 1\r\nGET a\r\nGET b", 9, 10, 5, |_| {});
        assert_eq!(output, "+OK\r\n$1\r\n1\r\n");
    }

    #[test]
    fn a_malformed_frame_is_answered_behind_what_came_before() {
        let output = drive(b"SET a 1\r\n*1\r\n:4\r\nPING\r\n", 1000, 10, 5, |_| {});
        assert_eq!(
            output,
            "+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
        );
    }

    #[test]
    fn reading_stops_at_the_limit_of_commands_under_way() {
        let (shared, mut connection) = set_up(|settings| settings.limits.in_flight = 4);
        let mut partitions = Partitions::new(100, 9);
        let many = b"INCR n\r\n".repeat(10);
        connection.receive(&many, &mut partitions, &shared);
        assert!(!connection.wants_input(&shared));
        assert_eq!(
            partitions.queues.iter().map(VecDeque::len).sum::<usize>(),
            4
        );
        partitions.step(&mut connection, &shared);
        connection.resume(&mut partitions, &shared);
        assert_eq!(
            partitions.queues.iter().map(VecDeque::len).sum::<usize>(),
            4
        );
        for _ in 0..10 {
            partitions.step(&mut connection, &shared);
            connection.resume(&mut partitions, &shared);
        }
        assert!(connection.wants_input(&shared));
        let expected: String = (1..=10).map(|number| format!(":{number}\r\n")).collect();
        assert_eq!(connection.output(), expected.as_bytes());
    }

    #[test]
    fn a_client_that_does_not_read_is_given_up_at_the_limit() {
        let (shared, mut connection) = set_up(|settings| settings.limits.backlog = 10_000);
        let mut partitions = Partitions::new(100, 9);
        let value = "v".repeat(900);
        connection.receive(
            format!("SET k {value}\r\n").as_bytes(),
            &mut partitions,
            &shared,
        );
        partitions.step(&mut connection, &shared);
        for turn in 0..100 {
            connection.receive(b"GET k\r\n", &mut partitions, &shared);
            partitions.step(&mut connection, &shared);
            if connection.fault().is_some() {
                assert_eq!(connection.fault(), Some(Fault::Backlog));
                assert!(turn > 9, "given up after {turn} replies");
                assert!(!connection.wants_input(&shared));
                return;
            }
        }
        panic!("the backlog grew without bound");
    }

    #[test]
    fn half_a_frame_is_charged_as_it_arrives() {
        let (shared, mut connection) = set_up(|_| {});
        let mut partitions = Partitions::new(100, 9);
        let head = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n";
        connection.receive(head, &mut partitions, &shared);
        assert!(
            connection.buffered() < 1000,
            "an announced length costs nothing"
        );
        for _ in 0..500 {
            connection.receive(&[b'x'; 1000], &mut partitions, &shared);
        }
        assert!((500_000..2_000_000).contains(&connection.buffered()));
        assert!(shared.buffers.used() >= 500_000);
        connection.receive(&[b'x'; 500_000], &mut partitions, &shared);
        connection.receive(b"\r\n", &mut partitions, &shared);
        connection.sent(connection.output().len());
        assert!(connection.buffered() < 10_000, "{}", connection.buffered());
    }

    #[test]
    fn what_was_sent_is_forgotten_though_more_is_always_outstanding() {
        let (shared, mut connection) = set_up(|settings| settings.limits.backlog = 200_000);
        let mut partitions = Partitions::new(100, 9);
        let set = format!("SET k {}\r\n", "v".repeat(10_000));
        connection.receive(set.as_bytes(), &mut partitions, &shared);
        partitions.step(&mut connection, &shared);
        for _ in 0..1000 {
            connection.receive(b"GET k\r\n", &mut partitions, &shared);
            partitions.step(&mut connection, &shared);
            assert_eq!(connection.fault(), None);
            connection.sent(connection.output().len() - 1);
        }
        assert!(connection.buffered() < 500_000, "{}", connection.buffered());
    }

    #[test]
    fn what_a_closed_connection_left_in_the_partitions_stays_charged() {
        let (shared, mut connection) = set_up(|_| {});
        let mut partitions = Partitions::new(100, 9);
        let set = format!("SET k {}\r\n", "v".repeat(20_000));
        connection.receive(set.repeat(3).as_bytes(), &mut partitions, &shared);
        partitions.step(&mut connection, &shared);
        let (missing, account) = connection.leave().expect("two were not answered");
        assert_eq!(missing, 2);
        assert!((40_000..50_000).contains(&shared.buffers.used()));
        drop(account);
        assert_eq!(shared.buffers.used(), 0);
    }

    #[test]
    fn short_requests_for_long_replies_are_bounded_at_once() {
        let (shared, mut connection) = set_up(|settings| settings.limits.backlog = 50_000);
        let mut partitions = Partitions::new(100, 9);
        connection.receive(&b"COMMAND\r\n".repeat(5000), &mut partitions, &shared);
        assert_eq!(connection.fault(), Some(Fault::Backlog));
        assert!(connection.buffered() < 200_000, "{}", connection.buffered());

        let (shared, mut connection) = set_up(|settings| settings.limits.backlog = 50_000);
        let many = format!("COMMAND INFO{}\r\n", " get".repeat(10_000));
        connection.receive(many.as_bytes(), &mut partitions, &shared);
        assert_eq!(connection.fault(), Some(Fault::Backlog));
        assert!(connection.buffered() < 200_000, "{}", connection.buffered());

        let (shared, mut connection) = set_up(|settings| settings.limits.backlog = 50_000);
        let set = format!("SET k {}\r\n", "v".repeat(10_000));
        connection.receive(set.as_bytes(), &mut partitions, &shared);
        partitions.step(&mut connection, &shared);
        let many = format!("MGET{}\r\n", " k".repeat(10_000));
        connection.receive(many.as_bytes(), &mut partitions, &shared);
        partitions.step(&mut connection, &shared);
        assert_eq!(connection.fault(), Some(Fault::Backlog));
        assert!(connection.output().len() < 100, "100 MB were never written");
    }

    #[test]
    fn what_a_browser_sends_ends_the_connection_before_its_next_line() {
        for sent in [
            "POST / HTTP/1.1\r\nSET k v\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nSET k v\r\n",
            "*1\r\n$4\r\npost\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        ] {
            let (shared, mut connection) = set_up(|_| {});
            let mut partitions = Partitions::new(100, 9);
            connection.receive(sent.as_bytes(), &mut partitions, &shared);
            connection.resume(&mut partitions, &shared);
            assert_eq!(connection.fault(), Some(Fault::Foreign), "{sent}");
            assert!(partitions.queues.iter().all(VecDeque::is_empty), "{sent}");
        }
    }

    #[test]
    fn the_arguments_under_way_are_bounded_by_bytes() {
        let (shared, mut connection) = set_up(|settings| settings.limits.frame = 2000);
        let mut partitions = Partitions::new(100, 9);
        let one = format!("SET k {}\r\n", "v".repeat(900));
        connection.receive(one.repeat(10).as_bytes(), &mut partitions, &shared);
        assert_eq!(
            partitions.queues.iter().map(VecDeque::len).sum::<usize>(),
            2
        );
    }
}
