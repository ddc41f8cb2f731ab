//! Banking: transfers between accounts. Each account makes one transfer at a time, and keeps
//! messages that come meanwhile. A teller sends all orders for transfers at once. The size of the
//! program is the number of transfers.
//!
//! An account transfers only to accounts of a higher index, so no two wait for each other.

use std::any::Any;
use std::collections::VecDeque;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::{Random, Watch};
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Banking;

const ACCOUNTS: usize = 1000;
const BALANCE: u64 = 1 << 40;

pub(super) enum Member {
    Teller(Teller),
    Account(Box<Account>),
}

pub(super) struct Teller {
    /// Transfers to send, and to be done.
    left: u64,
    undone: u64,
    random: Random,
    sum: u64,
    watch: Watch,
}

pub(super) struct Account {
    index: usize,
    balance: u64,
    /// The amount of the transfer under way.
    transfers: Option<u64>,
    kept: VecDeque<Work>,
}

/// An amount to be sent to another account.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    to: usize,
    amount: u64,
}

/// An amount from another account.
#[derive(Clone, Copy)]
pub(super) struct Deposit {
    from: usize,
    amount: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Deposited;

/// The amount of a transfer that is done.
#[derive(Clone, Copy)]
pub(super) struct Done(u64);

/// What accounts send each other. It is one edge of the graph, so that an account has one inbox for
/// all.
#[derive(Clone, Copy)]
pub(super) enum Between {
    Deposit(Deposit),
    Deposited(Deposited),
}

/// Work that an account does at once, or keeps for later.
#[derive(Clone, Copy)]
enum Work {
    Transfer(Transfer),
    Deposit(Deposit),
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Transfer(Transfer),
    Between(Between),
    Done(Done),
}

/// What an account sends, to another account or to the teller.
enum Sends {
    Between(usize, Between),
    Done(Done),
}

impl Teller {
    fn new(size: u64, watch: &Watch) -> Self {
        Self {
            left: size,
            undone: size,
            random: Random::new(1),
            sum: 0,
            watch: watch.clone(),
        }
    }

    fn next(&mut self) -> (usize, Transfer) {
        self.left -= 1;
        transfer(&mut self.random)
    }

    #[inline]
    fn done(&mut self, Done(amount): Done) {
        self.sum += amount;
        self.undone -= 1;
        if self.undone == 0 {
            self.watch.part(self.sum);
        }
    }
}

/// An account, and what it is to transfer.
fn transfer(random: &mut Random) -> (usize, Transfer) {
    let from = random.below(ACCOUNTS as u64 / 10 * 8);
    let to = from + random.below(ACCOUNTS as u64 - from).max(1);
    let amount = 1 + random.below(1000);
    let to = to as usize;
    (from as usize, Transfer { to, amount })
}

impl Account {
    fn new(index: usize) -> Self {
        Self {
            index,
            balance: BALANCE,
            transfers: None,
            kept: VecDeque::new(),
        }
    }

    /// Does a piece of work, or keeps it.
    #[inline]
    fn on(&mut self, work: Work, send: &mut impl FnMut(Sends)) {
        if self.transfers.is_some() {
            return self.kept.push_back(work);
        }
        match work {
            Work::Transfer(Transfer { to, amount }) => {
                self.balance -= amount;
                self.transfers = Some(amount);
                let from = self.index;
                send(Sends::Between(
                    to,
                    Between::Deposit(Deposit { from, amount }),
                ));
            }
            Work::Deposit(Deposit { from, amount }) => {
                self.balance += amount;
                send(Sends::Between(from, Between::Deposited(Deposited)));
            }
        }
    }

    /// Takes a deposit, or ends the transfer under way and then does the kept work.
    #[inline]
    fn between(&mut self, between: Between, send: &mut impl FnMut(Sends)) {
        if let Between::Deposit(deposit) = between {
            return self.on(Work::Deposit(deposit), send);
        }
        let amount = self.transfers.take().expect("a transfer is under way");
        send(Sends::Done(Done(amount)));
        while self.transfers.is_none()
            && let Some(work) = self.kept.pop_front()
        {
            self.on(work, send);
        }
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        match self {
            Self::Teller(teller) => match note {
                Note::Done(done) => teller.done(done),
                _ => {
                    while teller.left > 0 {
                        let (account, transfer) = teller.next();
                        to.send(1 + account, Note::Transfer(transfer));
                    }
                }
            },
            Self::Account(account) => {
                let mut send = |sends| match sends {
                    Sends::Between(other, between) => to.send(1 + other, Note::Between(between)),
                    Sends::Done(done) => to.send(0, Note::Done(done)),
                };
                match note {
                    Note::Transfer(transfer) => account.on(Work::Transfer(transfer), &mut send),
                    Note::Between(between) => account.between(between, &mut send),
                    _ => panic!("no such message comes here"),
                }
            }
        }
    }
}

graph! {
    graph Bank {
        processors { teller: Teller [source], account: [Account; ACCOUNTS] }
        edges {
            teller -> account: Transfer [unbounded, cap = 128];
            account -> account: Between [unbounded, cap = 128];
            account -> teller: Done [unbounded];
        }
    }
}

impl Process<Bank> for Teller {
    fn ping(&mut self, cx: &mut Cx<'_, Bank, Self>) -> Next {
        while self.left > 0 {
            let (account, transfer) = self.next();
            cx.to::<Account>().at(account).send(transfer);
        }
        Next::Idle
    }
}
impl Receive<Bank, Account, Done> for Teller {
    fn receive(&mut self, done: Done, _: &mut Cx<'_, Bank, Self>) {
        self.done(done);
    }
}
impl Process<Bank> for Account {}

/// Sends the messages of an account.
#[inline]
fn send(cx: &mut Cx<'_, Bank, Account>, sends: Sends) {
    match sends {
        Sends::Between(other, between) => cx.to::<Account>().at(other).send(between),
        Sends::Done(done) => cx.to::<Teller>().send(done),
    }
}
impl Receive<Bank, Teller, Transfer> for Account {
    fn receive(&mut self, transfer: Transfer, cx: &mut Cx<'_, Bank, Self>) {
        self.on(Work::Transfer(transfer), &mut |sends| send(cx, sends));
    }
}
impl Receive<Bank, Account, Between> for Account {
    fn receive(&mut self, between: Between, cx: &mut Cx<'_, Bank, Self>) {
        self.between(between, &mut |sends| send(cx, sends));
    }
}

impl Program for Banking {
    const NAME: &'static str = "savina: banking";
    const SIZE: u64 = 50_000;
    const SMOKE: u64 = 500;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        4 * size
    }

    fn expected(size: u64) -> u64 {
        let mut random = Random::new(1);
        (0..size).map(|_| transfer(&mut random).1.amount).sum()
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let accounts = (0..ACCOUNTS).map(|index| Member::Account(Box::new(Account::new(index))));
        std::iter::once(Member::Teller(Teller::new(size, watch)))
            .chain(accounts)
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        vec![(0, Note::Start)]
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let accounts = (0..ACCOUNTS).map(Account::new);
        let builder = Bank::builder(Teller::new(size, watch), accounts);
        let builder = placed::<Self, _, Teller>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Account>(builder, 1, ACCOUNTS, workers);
        started(builder, workers, watch)
    }
}
