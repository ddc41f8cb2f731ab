//! The messages of the tests that count fates, each with a number, and their order.

use std::collections::HashMap;

macro_rules! messages {
    ($($name:ident),*) => {$(
        #[derive(Clone)]
        pub(crate) struct $name(pub(crate) u64);
    )*};
}

messages!(Put, Poke, Job, Ask, Answer, Line, Out);

/// The last number of each sender and receiver.
pub(crate) type Last = HashMap<(usize, usize), u64>;

/// Asserts that the numbers of a pair become larger: messages may be lost on the way.
pub(crate) fn in_order(last: &mut Last, pair: (usize, usize), number: u64) {
    if let Some(last) = last.insert(pair, number) {
        assert!(last < number, "{pair:?}: {number} came behind {last}");
    }
}

/// Watches edges for numbers out of order, or twice.
macro_rules! watch_order {
    ($app:ident: $($from:ident -> $to:ident: $message:ident),*) => {
        $({
            let mut last = $crate::messages::Last::new();
            $app.watch::<$from, $to, $message>(move |passed| {
                let pair = (passed.sender, passed.receiver);
                $crate::messages::in_order(&mut last, pair, passed.message.0);
            });
        })*
    };
}
pub(crate) use watch_order;
