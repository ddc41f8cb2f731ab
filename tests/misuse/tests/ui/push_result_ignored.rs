//! An item that a full ring handed back, dropped without a look.
#![deny(unused_must_use)]
use rast::queue::spsc;

fn main() {
    let (mut producer, _consumer) = spsc::ring::<u32>(8);
    producer.push(1);
}
