//! Random loads through a fixed graph, against what one thread would compute.
//!
//! Every packet carries its way. The oracle walks it in a loop; the graph has
//! to deliver each packet once, along the same places, and every ring has to
//! keep its order: senders number what they put into a ring, receivers expect
//! the next number.
#![cfg(not(rast_loom))]

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

const SPOKES: usize = 3;

/// What a packet does next at the hub.
#[derive(Clone, Copy, Debug)]
enum Leg {
    /// To a spoke and back.
    Back(usize),
    /// To a spoke and from there to the sink.
    Through(usize),
}

#[derive(Clone, Debug)]
struct Packet {
    id: usize,
    legs: Vec<Leg>,
    places: Vec<Place>,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Hub,
    Spoke(usize),
    Sink,
}

/// Numbers what goes into each ring.
#[derive(Default)]
struct Sent(HashMap<usize, u64>);

impl Sent {
    fn number(&mut self, mut packet: Packet, target: usize) -> Packet {
        let next = self.0.entry(target).or_default();
        packet.number = *next;
        *next += 1;
        packet
    }
}

/// Expects the next number from each ring.
#[derive(Default)]
struct Expected(HashMap<(&'static str, usize), u64>);

impl Expected {
    fn check(&mut self, edge: &'static str, sender: usize, packet: &Packet) {
        let next = self.0.entry((edge, sender)).or_default();
        assert_eq!(packet.number, *next, "{edge} from {sender} keeps its order");
        *next += 1;
    }
}

#[derive(Default)]
struct Hub {
    to_spokes: Sent,
    to_sink: Sent,
    expected: Expected,
}
#[derive(Default)]
struct Spoke {
    to_hub: Sent,
    to_sink: Sent,
    expected: Expected,
}
#[derive(Default)]
struct Sink {
    expected: Expected,
}

graph! {
    graph Wheel {
        processors { hub: Hub, spoke: [Spoke; SPOKES], sink: Sink }
        edges {
            ingress -> hub: Packet [cap = 3];
            hub -> spoke: Packet [cap = 2];
            spoke -> hub: Packet [unbounded, cap = 1];
            spoke -> sink: Packet [cap = 1];
            hub -> sink: Packet [cap = 2];
            sink -> egress: Packet [cap = 2];
        }
    }
}

impl Hub {
    fn route(&mut self, mut packet: Packet, cx: &mut Cx<'_, Wheel, Self>) {
        packet.places.push(Place::Hub);
        match packet.legs.first() {
            None => {
                let packet = self.to_sink.number(packet, 0);
                cx.to::<Sink>().send(packet);
            }
            Some(&(Leg::Back(spoke) | Leg::Through(spoke))) => {
                let packet = self.to_spokes.number(packet, spoke);
                cx.to::<Spoke>().at(spoke).send(packet);
            }
        }
    }
}

impl Process<Wheel> for Hub {}
impl Receive<Wheel, Ingress, Packet> for Hub {
    fn receive(&mut self, packet: Packet, cx: &mut Cx<'_, Wheel, Self>) {
        self.route(packet, cx);
    }
}
impl Receive<Wheel, Spoke, Packet> for Hub {
    fn receive(&mut self, packet: Packet, cx: &mut Cx<'_, Wheel, Self>) {
        self.expected.check("spoke -> hub", cx.sender(), &packet);
        self.route(packet, cx);
    }
}
impl Process<Wheel> for Spoke {}
impl Receive<Wheel, Hub, Packet> for Spoke {
    fn receive(&mut self, mut packet: Packet, cx: &mut Cx<'_, Wheel, Self>) {
        self.expected.check("hub -> spoke", cx.sender(), &packet);
        packet.places.push(Place::Spoke(cx.replica()));
        match packet.legs.remove(0) {
            Leg::Back(_) => {
                let packet = self.to_hub.number(packet, 0);
                cx.to::<Hub>().send(packet);
            }
            Leg::Through(_) => {
                let packet = self.to_sink.number(packet, 0);
                cx.to::<Sink>().send(packet);
            }
        }
    }
}
impl Process<Wheel> for Sink {}
impl<F> Receive<Wheel, F, Packet> for Sink {
    fn receive(&mut self, mut packet: Packet, cx: &mut Cx<'_, Wheel, Self>) {
        // Rings of different edges are told apart by the last place.
        let edge = match packet.places.last() {
            Some(Place::Hub) => "hub -> sink",
            _ => "spoke -> sink",
        };
        self.expected.check(edge, cx.sender(), &packet);
        packet.places.push(Place::Sink);
        cx.to::<Egress>().send(packet);
    }
}

/// The places of a packet, by one thread.
fn oracle(legs: &[Leg]) -> Vec<Place> {
    let mut places = vec![Place::Hub];
    for leg in legs {
        match *leg {
            Leg::Back(spoke) => places.extend([Place::Spoke(spoke), Place::Hub]),
            Leg::Through(spoke) => {
                places.extend([Place::Spoke(spoke), Place::Sink]);
                return places;
            }
        }
    }
    places.push(Place::Sink);
    places
}

fn leg() -> impl Strategy<Value = Leg> {
    prop_oneof![
        3 => (0..SPOKES).prop_map(Leg::Back),
        1 => (0..SPOKES).prop_map(Leg::Through),
    ]
}

fn load() -> impl Strategy<Value = Vec<Vec<Leg>>> {
    prop::collection::vec(prop::collection::vec(leg(), 0..6), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_packet_goes_its_way_once_and_rings_keep_their_order(
        load in load(),
        workers in 1_usize..4,
        threads in 1_usize..4,
        batch in 1_usize..9,
        drains_early in any::<bool>(),
    ) {
        let app = Wheel::builder(
            Hub::default(),
            (0..SPOKES).map(|_| Spoke::default()),
            Sink::default(),
        )
        .workers(workers)
        .batch(batch)
        .period(Duration::from_millis(1))
        .start()
        .unwrap();
        let mut out = app.egress::<Sink, Packet>(0);
        let into = app.ingress::<Hub, Packet>();
        let (packets, report) = std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let mut packets = Vec::new();
                while let Ok(packet) = out.recv() {
                    packets.push(packet);
                }
                packets
            });
            let senders: Vec<_> = (0..threads)
                .map(|thread| {
                    let (into, load) = (into.clone(), &load);
                    scope.spawn(move || {
                        for (id, legs) in load.iter().enumerate().skip(thread).step_by(threads) {
                            let packet = Packet {
                                id,
                                legs: legs.clone(),
                                places: Vec::new(),
                                number: 0,
                            };
                            into.send(packet).unwrap();
                        }
                    })
                })
                .collect();
            for sender in senders {
                sender.join().unwrap();
            }
            if !drains_early {
                while app.metrics().edges[5].received < load.len() as u64 {
                    std::thread::yield_now();
                }
            }
            let report = app.drain(Duration::from_secs(60));
            (receiver.join().unwrap(), report)
        });
        let report = report.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(report.panics.is_empty() && report.faults.is_empty(), "{}", report);
        prop_assert_eq!(report.undelivered_total(), 0);
        let mut seen: Vec<_> = packets.into_iter().map(|one| (one.id, one.places)).collect();
        seen.sort_by_key(|one| one.0);
        let expected: Vec<_> = load.iter().map(|legs| oracle(legs)).enumerate().collect();
        prop_assert_eq!(seen, expected);
    }
}
