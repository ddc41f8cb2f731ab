//! A look at the first item, kept while that item is taken out.
use rast::queue::spsc;

fn main() {
    let (_producer, mut consumer) = spsc::ring::<String>(8);
    let first = consumer.peek();
    drop(consumer.pop());
    println!("{first:?}");
}
