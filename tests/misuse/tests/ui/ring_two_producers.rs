//! One half of a ring, used by two threads at once.
use rast::queue::spsc;

fn main() {
    let (mut producer, _consumer) = spsc::ring::<u32>(8);
    std::thread::scope(|scope| {
        scope.spawn(|| producer.push(1));
        scope.spawn(|| producer.push(2));
    });
}
