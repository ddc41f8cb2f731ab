//! A crate that knows only the facade, under another name, and imports nothing.
//!
//! `graph!` and everything around it is called by its full path, so every path that the macro
//! writes must come through its own crate and none through the caller's names.

tower::msgpass::graph! {
    /// Numbers come in, squares are summed by two replicas, sums come out.
    pub graph Squares {
        processors { spread: Spread, sum: [Sum; 2] }
        edges {
            ingress -> spread: u32;
            spread -> sum: Square [cap = 8, burst = 1];
            sum -> egress: Total [cap = 8];
        }
    }
}

/// The square of a number.
#[derive(Debug)]
pub struct Square(u64);

/// What a replica has come to so far.
#[derive(Debug)]
pub struct Total {
    /// The replica.
    pub replica: usize,
    /// The sum of the squares that it was sent.
    pub sum: u64,
}

/// Squares numbers and sends even and odd ones to different replicas.
#[derive(Debug)]
pub struct Spread;

impl tower::msgpass::Process<Squares> for Spread {}

impl tower::msgpass::Receive<Squares, tower::msgpass::Ingress, u32> for Spread {
    fn receive(&mut self, number: u32, cx: &mut tower::msgpass::Cx<'_, Squares, Self>) {
        let square = Square(u64::from(number) * u64::from(number));
        cx.to::<Sum>().key(u64::from(number % 2)).send(square);
    }
}

/// Sums squares.
#[derive(Debug, Default)]
pub struct Sum(u64);

impl tower::msgpass::Process<Squares> for Sum {}

impl tower::msgpass::Receive<Squares, Spread, Square> for Sum {
    fn receive(&mut self, square: Square, cx: &mut tower::msgpass::Cx<'_, Squares, Self>) {
        self.0 += square.0;
        let total = Total {
            replica: cx.replica(),
            sum: self.0,
        };
        cx.to::<tower::msgpass::Egress>().send(total);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_graph_runs_to_its_end() {
        let handle = super::Squares::builder(super::Spread, [super::Sum(0), super::Sum(0)])
            .workers(2)
            .start()
            .unwrap();
        let numbers = handle.ingress::<super::Spread, u32>();
        let mut totals = handle.egress::<super::Sum, super::Total>(0);
        let reader = std::thread::spawn(move || {
            let mut last = [0, 0];
            let mut messages = 0;
            while let Ok(total) = totals.recv() {
                assert!(total.sum >= last[total.replica], "a replica is in order");
                last[total.replica] = total.sum;
                messages += 1;
            }
            (messages, last[0] + last[1])
        });
        for number in 1..=1000 {
            numbers.send(number).unwrap();
        }
        handle.drain(std::time::Duration::from_secs(60)).unwrap();
        assert!(numbers.try_send(0).unwrap_err().is_closed());
        let squares = 1000 * 1001 * 2001 / 6;
        assert_eq!(reader.join().unwrap(), (1000, squares));
    }

    #[test]
    fn the_tables_name_what_was_declared() {
        assert_eq!(super::Squares::PROCESSORS.len(), 2);
        assert_eq!(super::Squares::EDGES.len(), 3);
        assert!(super::Squares::dot().contains("spread"));
        assert!(super::Squares::mermaid().contains("sum"));
    }
}
