//! Order books by symbol, of which a few are hot: the graph spreads them over its workers by
//! measured load while orders come in.
//!
//! `cargo run --release --example order-book`
//!
//! All orders of a symbol meet in one replica, in the order in which they were sent. So the trades
//! are the same as on a single thread. The example checks this.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::time::Duration;

use rast::msgpass::sharder::Greedy;
use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
use rast::primitive::Random;

#[derive(Clone, Copy)]
struct Order {
    symbol: u32,
    buys: bool,
    price: u32,
    amount: u32,
}
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trade {
    symbol: u32,
    price: u32,
    amount: u32,
}

graph! {
    graph App {
        processors { books: [Books; 64] }
        edges {
            ingress -> books: Order [cap = 1024];
            // An order can meet this many that wait.
            books -> egress: Trade [cap = 1024, burst = 16];
        }
    }
}

/// What waits in a book, best price first, then oldest first: price, number of the order, amount.
#[derive(Default)]
struct Book {
    sells: BTreeMap<(u32, u64), u32>,
    buys: BTreeMap<(Reverse<u32>, u64), u32>,
    orders: u64,
}

impl Book {
    /// Trades as far as prices meet, with at most 16 others; what is left waits.
    fn place(&mut self, order: Order, mut traded: impl FnMut(Trade)) {
        let Order {
            symbol,
            buys,
            price,
            mut amount,
        } = order;
        for _ in 0..16 {
            let best = match buys {
                true => self
                    .sells
                    .first_entry()
                    .filter(|best| best.key().0 <= price)
                    .map(|best| (best.key().0, take(best, amount))),
                false => self
                    .buys
                    .first_entry()
                    .filter(|best| best.key().0.0 >= price)
                    .map(|best| (best.key().0.0, take(best, amount))),
            };
            let Some((price, part)) = best else { break };
            amount -= part;
            traded(Trade {
                symbol,
                price,
                amount: part,
            });
            if amount == 0 {
                return;
            }
        }
        self.orders += 1;
        match buys {
            true => self.buys.insert((Reverse(price), self.orders), amount),
            false => self.sells.insert((price, self.orders), amount),
        };
    }
}

/// Takes up to `amount` from an order that waits.
fn take<K: Ord>(
    mut waiting: std::collections::btree_map::OccupiedEntry<'_, K, u32>,
    amount: u32,
) -> u32 {
    let part = amount.min(*waiting.get());
    *waiting.get_mut() -= part;
    if *waiting.get() == 0 {
        waiting.remove();
    }
    part
}

#[derive(Default)]
struct Books(HashMap<u32, Book>);
impl Process<App> for Books {}
impl Receive<App, Ingress, Order> for Books {
    fn receive(&mut self, order: Order, cx: &mut Cx<'_, App, Self>) {
        let book = self.0.entry(order.symbol).or_default();
        book.place(order, |trade| cx.to::<Egress>().send(trade));
    }
}

/// Orders of which half are for one symbol of a thousand, a quarter for the next, and so on.
fn orders(count: usize) -> impl Iterator<Item = Order> {
    let mut numbers = Random::new(1);
    let mut random = move || (numbers.draw() >> 33) as u32;
    std::iter::repeat_with(move || Order {
        symbol: random().leading_zeros() * 31 + random() % 31,
        buys: random() % 2 == 0,
        price: 90 + random() % 21,
        amount: 1 + random() % 100,
    })
    .take(count)
}

fn main() -> Result<(), Box<dyn Error>> {
    const ORDERS: usize = 300_000;
    let app = App::builder((0..64).map(|_| Books::default()))
        .workers(2)
        .period(Duration::from_millis(10))
        .balancer(Greedy::new())
        .start()?;
    let door = app.ingress::<Books, Order>();
    let mut lane = app.egress::<Books, Trade>(0);
    let reader = std::thread::spawn(move || {
        let mut trades: HashMap<u32, Vec<Trade>> = HashMap::new();
        while let Ok(trade) = lane.recv() {
            trades.entry(trade.symbol).or_default().push(trade);
        }
        trades
    });
    for order in orders(ORDERS) {
        door.key(u64::from(order.symbol)).send(order)?;
    }
    let report = app.drain(Duration::from_secs(60))?;
    let trades = reader.join().expect("it does not panic");

    let mut books: HashMap<u32, (Book, Vec<Trade>)> = HashMap::new();
    for order in orders(ORDERS) {
        let (book, trades) = books.entry(order.symbol).or_default();
        book.place(order, |trade| trades.push(trade));
    }
    let count: usize = books.values().map(|(_, trades)| trades.len()).sum();
    for (symbol, (_, expected)) in &books {
        assert_eq!(
            trades.get(symbol).map_or(&[][..], |trades| trades),
            expected,
            "{symbol}"
        );
    }
    let hot: BTreeSet<_> = books
        .iter()
        .map(|(symbol, book)| (Reverse(book.1.len()), symbol))
        .collect();
    for (Reverse(trades), symbol) in hot.iter().take(3) {
        println!("symbol {symbol}: {trades} trades");
    }
    let moves = report.metrics.moves;
    println!(
        "{ORDERS} orders, {count} trades, as one thread makes them; {moves} moves of replicas"
    );
    Ok(())
}
