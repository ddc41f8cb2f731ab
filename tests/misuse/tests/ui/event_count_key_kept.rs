//! A key of an event count that outlives it.
use rast::primitive::EventCount;

fn main() {
    let key = {
        let event = EventCount::new();
        event.prepare()
    };
    drop(key);
}
